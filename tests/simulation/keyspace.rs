//! The data of one simulated server: strings, hashes and sorted sets with an expiry, and the commands on them that the
//! library sends. An unknown command ends the run, so that no answer is invented. `conformance.rs` compares the known
//! commands with a real server.

use std::collections::BTreeMap;

use crate::resp::Reply;

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

#[derive(Clone, Debug)]
enum Value {
    Text(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// The members, sorted by score and then by their bytes.
    Sorted(Vec<(f64, Vec<u8>)>),
}

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    /// The server's time in ms at which the entry expires.
    expires: Option<i64>,
}

/// The data, at the time of the current command. `now` is in ms of the server's clock.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    entries: BTreeMap<Vec<u8>, Entry>,
    now: i64,
}

/// A key as an observer of the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The bytes of a string. They are empty for other types.
    pub(crate) text: Vec<u8>,
    /// The members of a sorted set, with their scores.
    pub(crate) members: Vec<(Vec<u8>, i64)>,
    pub(crate) expires: Option<i64>,
}

type Words<'a> = &'a [Vec<u8>];
type Done = Result<Reply, &'static str>;

impl Keyspace {
    pub(crate) fn set_now(&mut self, now: i64) {
        self.now = now;
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the live keys.
    pub(crate) fn keys(&mut self) -> Vec<Vec<u8>> {
        let now = self.now;
        self.entries.retain(|_, entry| entry.expires.is_none_or(|at| now <= at));
        self.entries.keys().cloned().collect()
    }

    pub(crate) fn see(&mut self, key: &[u8]) -> Option<Seen> {
        let entry = self.live(key)?;
        let (text, members) = match &entry.value {
            Value::Text(text) => (text.clone(), Vec::new()),
            Value::Hash(_) => (Vec::new(), Vec::new()),
            Value::Sorted(all) => {
                (Vec::new(), all.iter().map(|(score, member)| (member.clone(), *score as i64)).collect())
            }
        };
        Some(Seen { text, members, expires: entry.expires })
    }

    /// Runs one command on the data. Returns `None` if it is not such a command.
    pub(crate) fn run(&mut self, words: Words<'_>) -> Option<Reply> {
        let name = words.first()?.to_ascii_uppercase();
        let done = match name.as_slice() {
            b"GET" => self.get(words),
            b"GETRANGE" => self.get_range(words),
            b"SET" => self.set(words),
            b"SETRANGE" => self.set_range(words),
            b"DEL" => Ok(Reply::Int(words[1..].iter().filter(|key| self.remove(key)).count() as i64)),
            b"EXISTS" => {
                Ok(Reply::Int(words[1..].iter().filter(|key| self.live(key).is_some()).count() as i64))
            }
            b"PTTL" => Ok(Reply::Int(self.pttl(&words[1]))),
            b"PEXPIRE" => Ok(Reply::Int(i64::from(self.pexpire(words)))),
            b"DBSIZE" => Ok(Reply::Int(self.keys().len() as i64)),
            b"FLUSHALL" => {
                self.clear();
                Ok(Reply::ok())
            }
            b"HGET" => self
                .hash(&words[1])
                .map(|hash| hash.and_then(|hash| hash.get(&words[2])).map_or(Reply::Nil, bulk)),
            b"HMGET" => self.hash(&words[1]).map(|hash| {
                let of =
                    |field: &Vec<u8>| hash.as_ref().and_then(|hash| hash.get(field)).map_or(Reply::Nil, bulk);
                Reply::Array(words[2..].iter().map(of).collect())
            }),
            b"HLEN" => self.hash(&words[1]).map(|hash| Reply::Int(hash.map_or(0, |hash| hash.len()) as i64)),
            b"HEXISTS" => self
                .hash(&words[1])
                .map(|hash| Reply::Int(i64::from(hash.is_some_and(|hash| hash.contains_key(&words[2]))))),
            b"HSET" => self.hset(words),
            b"HDEL" => self.hdel(words),
            b"ZADD" => self.zadd(words),
            b"ZREM" => self.zrem(words),
            b"ZRANGE" => self.zrange(words, false),
            b"ZREVRANGE" => self.zrange(words, true),
            b"ZCARD" => self.sorted(&words[1]).map(|all| Reply::Int(all.len() as i64)),
            b"ZSCORE" => self.sorted(&words[1]).map(|all| {
                let found = all.iter().find(|(_, member)| *member == words[2]);
                found.map_or(Reply::Nil, |(score, _)| Reply::text(shown(*score)))
            }),
            b"ZRANK" => self.sorted(&words[1]).map(|all| {
                let at = all.iter().position(|(_, member)| *member == words[2]);
                at.map_or(Reply::Nil, |at| Reply::Int(at as i64))
            }),
            b"ZREMRANGEBYSCORE" => self.zremrangebyscore(words),
            _ => return None,
        };
        Some(done.unwrap_or_else(Reply::error))
    }

    fn live(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let over = self.entries.get(key)?.expires.is_some_and(|at| self.now > at);
        if over {
            self.entries.remove(key);
        }
        self.entries.get_mut(key)
    }

    /// Removes a key. Returns whether it existed.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.live(key).is_some() && self.entries.remove(key).is_some()
    }

    fn get(&mut self, words: Words<'_>) -> Done {
        match self.live(&words[1]).map(|entry| &entry.value) {
            None => Ok(Reply::Nil),
            Some(Value::Text(text)) => Ok(bulk(text)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    /// Returns a part of a text. Both ends are counted from its beginning.
    fn get_range(&mut self, words: Words<'_>) -> Done {
        let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<usize>().ok();
        let (Some(first), Some(last)) = (number(&words[2]), number(&words[3])) else {
            return Err("ERR value is not an integer or out of range");
        };
        match self.live(&words[1]).map(|entry| &entry.value) {
            None => Ok(bulk(Vec::new())),
            Some(Value::Text(text)) => {
                let end = text.len().min(last + 1);
                Ok(bulk(&text[first.min(end)..end]))
            }
            Some(_) => Err(WRONG_TYPE),
        }
    }

    fn set(&mut self, words: Words<'_>) -> Done {
        let (mut only_new, mut expires, mut gets) = (false, None, false);
        let mut options = words[3..].iter();
        while let Some(option) = options.next() {
            match option.to_ascii_uppercase().as_slice() {
                b"NX" => only_new = true,
                b"GET" => gets = true,
                b"PX" => {
                    let lease = integer(options.next().ok_or("ERR syntax error")?)?;
                    if lease <= 0 {
                        return Err("ERR invalid expire time in 'set' command");
                    }
                    expires = Some(self.now + lease);
                }
                other => panic!("SET has no option {:?} here", String::from_utf8_lossy(other)),
            }
        }
        if only_new && self.live(&words[1]).is_some() {
            return Ok(Reply::Nil);
        }
        let before = if gets { self.get(words)? } else { Reply::ok() };
        self.entries.insert(words[1].clone(), Entry { value: Value::Text(words[2].clone()), expires });
        Ok(before)
    }

    /// Overwrites a part of an existing text. Does not make the text longer.
    fn set_range(&mut self, words: Words<'_>) -> Done {
        let at = usize::try_from(integer(&words[2])?).map_err(|_| "ERR offset is out of range")?;
        match self.live(&words[1]).map(|entry| &mut entry.value) {
            Some(Value::Text(text)) if at + words[3].len() <= text.len() => {
                text[at..at + words[3].len()].copy_from_slice(&words[3]);
                Ok(Reply::Int(text.len() as i64))
            }
            Some(Value::Hash(_) | Value::Sorted(_)) => Err(WRONG_TYPE),
            _ => panic!("SETRANGE lengthens nothing here"),
        }
    }

    fn pttl(&mut self, key: &[u8]) -> i64 {
        let now = self.now;
        self.live(key).map_or(-2, |entry| entry.expires.map_or(-1, |at| at - now))
    }

    fn pexpire(&mut self, words: Words<'_>) -> bool {
        let (now, lease) = (self.now, integer(&words[2]).expect("PEXPIRE takes whole milliseconds"));
        let longer = match words.get(3).map(|option| option.to_ascii_uppercase()) {
            None => false,
            Some(option) if option == b"GT" => true,
            Some(option) => panic!("PEXPIRE has no option {option:?} here"),
        };
        let Some(entry) = self.live(&words[1]) else { return false };
        // A key without an expiry lives for ever, so no new expiry is longer.
        if longer && entry.expires.is_none_or(|at| now + lease <= at) {
            return false;
        }
        entry.expires = Some(now + lease);
        if lease <= 0 {
            self.entries.remove(&words[1]);
        }
        true
    }

    fn hash(&mut self, key: &[u8]) -> Result<Option<&mut BTreeMap<Vec<u8>, Vec<u8>>>, &'static str> {
        match self.live(key).map(|entry| &mut entry.value) {
            None => Ok(None),
            Some(Value::Hash(hash)) => Ok(Some(hash)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    fn hset(&mut self, words: Words<'_>) -> Done {
        if self.live(&words[1]).is_none() {
            self.entries
                .insert(words[1].clone(), Entry { value: Value::Hash(BTreeMap::new()), expires: None });
        }
        let Some(hash) = self.hash(&words[1])? else { unreachable!("it was just made") };
        let pairs = words[2..].chunks_exact(2);
        let new = pairs.filter(|pair| hash.insert(pair[0].clone(), pair[1].clone()).is_none());
        Ok(Reply::Int(new.count() as i64))
    }

    fn hdel(&mut self, words: Words<'_>) -> Done {
        let Some(hash) = self.hash(&words[1])? else { return Ok(Reply::Int(0)) };
        let gone = words[2..].iter().filter(|field| hash.remove(*field).is_some()).count();
        if hash.is_empty() {
            self.entries.remove(&words[1]);
        }
        Ok(Reply::Int(gone as i64))
    }

    /// Returns the members of a sorted set. It is empty if the key does not exist.
    fn sorted(&mut self, key: &[u8]) -> Result<&mut [(f64, Vec<u8>)], &'static str> {
        match self.live(key).map(|entry| &mut entry.value) {
            None => Ok(&mut []),
            Some(Value::Sorted(all)) => Ok(all),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    /// Changes the members, and sorts them again. Removes the key if no members remain.
    fn change(&mut self, key: &[u8], change: impl FnOnce(&mut Vec<(f64, Vec<u8>)>) -> i64) -> Done {
        if self.live(key).is_none() {
            self.entries.insert(key.to_vec(), Entry { value: Value::Sorted(Vec::new()), expires: None });
        }
        let Some(Value::Sorted(all)) = self.live(key).map(|entry| &mut entry.value) else {
            return Err(WRONG_TYPE);
        };
        let count = change(all);
        all.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
        if all.is_empty() {
            self.entries.remove(key);
        }
        Ok(Reply::Int(count))
    }

    fn zadd(&mut self, words: Words<'_>) -> Done {
        let (option, pair) = match words.len() {
            4 => (None, &words[2..]),
            _ => (Some(words[2].to_ascii_uppercase()), &words[3..]),
        };
        let score = real(&pair[0])?;
        let (new, old) = match option.as_deref() {
            None => (true, true),
            Some(b"NX") => (true, false),
            Some(b"XX") => (false, true),
            Some(other) => panic!("ZADD has no option {other:?} here"),
        };
        self.change(&words[1], |all| match all.iter_mut().find(|(_, member)| *member == pair[1]) {
            Some(found) => {
                if old {
                    found.0 = score;
                }
                0
            }
            None if new => {
                all.push((score, pair[1].clone()));
                1
            }
            None => 0,
        })
    }

    fn zrem(&mut self, words: Words<'_>) -> Done {
        self.change(&words[1], |all| {
            let before = all.len();
            all.retain(|(_, member)| !words[2..].contains(member));
            (before - all.len()) as i64
        })
    }

    fn zremrangebyscore(&mut self, words: Words<'_>) -> Done {
        let (least, most) = (real(&words[2])?, real(&words[3])?);
        self.change(&words[1], |all| {
            let before = all.len();
            all.retain(|(score, _)| *score < least || *score > most);
            (before - all.len()) as i64
        })
    }

    fn zrange(&mut self, words: Words<'_>, reverse: bool) -> Done {
        let scores = words.get(4).is_some();
        let (first, last) = (integer(&words[2])?, integer(&words[3])?);
        let all = self.sorted(&words[1])?;
        let length = all.len() as i64;
        let from = |at: i64| if at < 0 { length + at } else { at };
        let (first, last) = (from(first).max(0), from(last).min(length - 1));
        let mut shown_ones = Vec::new();
        for at in first..=last {
            let at = if reverse { length - 1 - at } else { at };
            let (score, member) = &all[at as usize];
            shown_ones.push(bulk(member));
            if scores {
                shown_ones.push(Reply::text(shown(*score)));
            }
        }
        Ok(Reply::Array(shown_ones))
    }
}

fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
    Reply::Bulk(bytes.as_ref().to_vec())
}

fn integer(word: &[u8]) -> Result<i64, &'static str> {
    let text = std::str::from_utf8(word).ok();
    text.and_then(|text| text.parse().ok()).ok_or("ERR value is not an integer or out of range")
}

fn real(word: &[u8]) -> Result<f64, &'static str> {
    let text = std::str::from_utf8(word).ok();
    text.and_then(|text| text.parse().ok()).ok_or("ERR value is not a valid float")
}

/// Formats a score as the server writes it.
fn shown(score: f64) -> String {
    match score {
        score if score.is_infinite() => if score > 0.0 { "inf" } else { "-inf" }.to_owned(),
        score => crate::lua::number(score),
    }
}
