//! The checks on the servers themselves, for each request: which owner changes which key.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use crate::check::Oracle;
use crate::journal::{Journal, now as true_now};
use crate::keyspace::Seen;
use crate::resp::Reply;

/// The keys at one moment.
pub(crate) type Look = BTreeMap<Vec<u8>, Seen>;

/// A request: its client, the name of its script if there is one, and its words.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) client: &'a str,
    pub(crate) script: &'a [u8],
    pub(crate) words: &'a [Vec<u8>],
}

/// The keys that a server has evicted since the last registration by a client.
#[derive(Debug)]
struct Evicted {
    since: Duration,
    keys: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
}

/// The time within which a client has queried the server for evictions and has registered it again. This is half a
/// second, and the time of three answers.
const NOTICED: Duration = Duration::from_millis(700);

/// The id that only the gated scripts contain.
const GATED: &str = "4f0c1b7e9a6d42c58e13d7b2605fa9c4";
const TOKEN: usize = 48;

/// The checks of all servers of one world.
#[derive(Clone)]
pub(crate) struct Audit {
    journal: Journal,
    /// The scripts, by name.
    scripts: Rc<RefCell<BTreeMap<String, Script>>>,
    /// Whether only gated scripts may create a key.
    gated: bool,
    /// The longest lease in ms.
    max_ttl: i64,
    evicted: Rc<RefCell<BTreeMap<String, Evicted>>>,
    /// The time until which a server must not vote after an eviction, by its clock in us.
    quarantine: Rc<RefCell<BTreeMap<String, i64>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Script {
    title: &'static str,
    acquires: bool,
    gated: bool,
}

/// The first lines of the scripts, which identify them.
pub(crate) const TITLES: [(&str, &str); 7] = [
    ("-- Registers one run of a voter", "boot"),
    ("-- Grants a lock", "acquire"),
    ("-- Grants an exclusive lock on several", "acquire all"),
    ("-- Makes the fencing token", "fence"),
    ("-- Extends the leases of locks", "renew"),
    ("-- Releases a lock if", "release"),
    ("-- Turns an exclusive", "downgrade"),
];

impl Audit {
    pub(crate) fn new(journal: Journal, gated: bool, max_ttl: Duration) -> Self {
        let max_ttl = i64::try_from(max_ttl.as_millis()).expect("short");
        let (scripts, evicted, quarantine) = (Rc::default(), Rc::default(), Rc::default());
        Self { journal, scripts, gated, max_ttl, evicted, quarantine }
    }

    /// Records that a server received a script. `name` is the name under which the script runs, and `text` is the text
    /// that the client sent.
    pub(crate) fn knows(&self, name: &str, text: &[u8]) {
        let mut scripts = self.scripts.borrow_mut();
        if scripts.contains_key(name) {
            return;
        }
        let text = String::from_utf8_lossy(text);
        let known = TITLES.iter().find(|(first, _)| text.contains(first));
        let title = known.map_or("script", |(_, title)| title);
        let script = Script { title, acquires: title.starts_with("acquire"), gated: text.contains(GATED) };
        scripts.insert(name.to_owned(), script);
    }

    /// Returns the script of a request. A plain SET counts as a script.
    fn script(&self, asked: Asked<'_>) -> Option<Script> {
        if asked.words[0].eq_ignore_ascii_case(b"SET") {
            return Some(Script { title: "set", acquires: true, gated: false });
        }
        self.scripts.borrow().get(std::str::from_utf8(asked.script).ok()?).copied()
    }

    /// Records that a server has evicted a key.
    pub(crate) fn evicted(&self, server: &str, key: &[u8], seen: &Seen) {
        let since = true_now();
        let mut all = self.evicted.borrow_mut();
        let evicted =
            all.entry(server.to_owned()).or_insert_with(|| Evicted { since, keys: BTreeMap::new() });
        if is_lock(key) {
            self.journal.count("locks thrown away");
            let victims = owners(seen).into_iter().map(<[u8]>::to_vec);
            evicted.keys.entry(key.to_vec()).or_default().extend(victims);
        }
    }

    /// Records that a client has registered the server again. If the server evicted keys, it must not vote until the
    /// longest lease has ended.
    fn registered(&self, server: &str, now: i64) {
        if let Some(Evicted { since, .. }) = self.evicted.borrow_mut().remove(server) {
            let till = now + self.max_ttl * 1_020 + 10_000;
            self.quarantine.borrow_mut().insert(server.to_owned(), till);
            self.noticed(server, since);
        }
    }

    fn noticed(&self, server: &str, since: Duration) {
        let took = true_now() - since;
        if took > NOTICED {
            let what = format!("{server}: for {took:?} nobody noticed that it throws keys away");
            self.journal.broken(Oracle::Servers, what);
        }
    }

    /// Checks the state at the end of the world.
    pub(crate) fn end(&self) {
        self.evicted.borrow().iter().for_each(|(server, evicted)| self.noticed(server, evicted.since));
    }

    /// Records that a request was executed.
    pub(crate) fn ran(&self, server: &str, now: i64, asked: Asked<'_>, before: &Look, reply: &Reply) {
        let Asked { client, words, .. } = asked;
        // Heartbeats and handshakes are frequent, and change nothing.
        let Some(script) = self.script(asked) else { return };
        let title = script.title;
        let asking = asking(words);
        let numbers = self.journal.owners(|all| {
            for (owner, keys) in &asking {
                all.hear(owner, client, true_now());
                match title {
                    "release" => all.released(owner),
                    _ if script.acquires => all.asks(owner, keys),
                    _ => {}
                }
            }
            // Readers whose leases end at the same time are sorted by their tokens, which are random.
            let holders = before.values().flat_map(owners).map(|holder| all.number(holder));
            let first = asking.first().map_or(0, |(owner, _)| all.number(owner));
            (first, holders.min().unwrap_or(0))
        });
        self.journal.server(server, now, title, (client, numbers.0, numbers.1), reply);
        if title == "boot" {
            self.registered(server, now);
        }
    }

    /// Checks the changes that a request made to its keys.
    pub(crate) fn changed(&self, server: &str, asked: Asked<'_>, now: i64, before: &Look, after: &Look) {
        let script = self.script(asked);
        let title = script.map_or("a command", |script| script.title);
        let broken = |what: &str| self.journal.broken(Oracle::Servers, format!("{server}: {title} {what}"));
        for (key, seen) in before.iter().filter(|(key, _)| is_lock(key)) {
            for owner in owners(seen) {
                let named = asked.words.iter().any(|word| word.starts_with(owner));
                if !named && is_changed(owner, seen, after.get(key), now) {
                    let number = self.journal.owners(|all| all.number(owner));
                    broken(&format!("changed what is owner {number}'s without naming it"));
                }
            }
        }
        for (key, seen) in after.iter().filter(|(key, _)| is_lock(key)) {
            if seen.expires.is_none() {
                broken("left a lock without an expiry");
            }
            let had = before.get(key).map(owners).unwrap_or_default();
            for owner in owners(seen).into_iter().filter(|owner| !had.contains(owner)) {
                self.made(server, asked, (now, key, owner), &broken);
            }
        }
        self.has(server, asked, (before, after), &broken);
    }

    /// Records that a key was created for an owner.
    fn made(
        &self,
        server: &str,
        asked: Asked<'_>,
        (now, key, owner): (i64, &[u8], &[u8]),
        broken: &impl Fn(&str),
    ) {
        let tainted = self.evicted.borrow().get(server).and_then(|evicted| {
            let victims = evicted.keys.get(key)?;
            Some(!victims.contains(owner))
        });
        self.journal.owners(|all| all.made(owner, server, tainted == Some(true)));
        let script = self.script(asked);
        if self.gated && script.is_none_or(|script| !(script.acquires && script.gated)) {
            broken("made a lock, past the gate");
        }
        if self.gated && self.quarantine.borrow().get(server).is_some_and(|till| now < *till) {
            broken("made a lock, although keys were thrown away a short while before");
        }
        let not_after = script.and_then(|script| script.not_after(asked.words));
        if not_after.is_some_and(|end| now > end) {
            broken("took effect after its client had given it up");
        }
    }

    /// Checks that each owner of the request now has all of its keys, or none.
    fn has(&self, server: &str, asked: Asked<'_>, (before, after): (&Look, &Look), broken: &impl Fn(&str)) {
        let Some(script) = self.script(asked).filter(|script| script.confirms()) else { return };
        let mut has: BTreeMap<&[u8], BTreeSet<&[u8]>> = BTreeMap::new();
        for (key, seen) in after {
            for owner in owners(seen) {
                if asked.words.iter().any(|word| word.starts_with(owner)) {
                    has.entry(owner).or_default().insert(key);
                }
            }
        }
        for (owner, keys) in has {
            let had = |key: &&[u8]| before.get(*key).is_some_and(|seen| owners(seen).contains(&owner));
            // One of the keys may have been evicted while the others still exist.
            let is_part = keys.len() < keys_of(asked.words).len() && !keys.iter().all(had);
            if script.title == "acquire all" && is_part {
                broken("left a part of several locks");
            }
            self.journal.owners(|all| all.has(owner, server, &keys, true_now()));
        }
    }
}

impl Script {
    /// Returns whether the script grants or extends a lease.
    fn confirms(self) -> bool {
        self.acquires || matches!(self.title, "renew" | "downgrade")
    }

    /// Returns the time until which an acquire may take effect, by the server's clock in us. It is the fourth argument,
    /// or the first if there are several claims.
    fn not_after(self, words: &[Vec<u8>]) -> Option<i64> {
        let place = match self.title {
            "acquire free" => 0,
            _ if self.acquires => 3,
            _ => return None,
        };
        std::str::from_utf8(words.get(3 + keys_of(words).len() + place)?).ok()?.parse().ok()
    }
}

/// Returns the owners that a request names, in order, each with its keys. A single owner has all keys. Several owners
/// have one key each.
fn asking(words: &[Vec<u8>]) -> Vec<(&[u8], &[Vec<u8>])> {
    let mut owners: Vec<&[u8]> = Vec::new();
    for owner in words.iter().filter_map(|word| owner_of(word)) {
        if !owners.contains(&owner) {
            owners.push(owner);
        }
    }
    let keys = keys_of(words);
    let of =
        |place: usize| if owners.len() == 1 { keys } else { keys.get(place..=place).unwrap_or_default() };
    owners.iter().enumerate().map(|(place, owner)| (*owner, of(place))).collect()
}

/// Returns all owners of a key.
fn owners(seen: &Seen) -> Vec<&[u8]> {
    let members = seen.members.iter().map(|(member, _)| member);
    members.chain([&seen.text]).filter_map(|word| owner_of(word)).collect()
}

/// Returns whether the entry of an owner changed for another reason than the end of its lease. `now` is in us.
fn is_changed(owner: &[u8], seen: &Seen, after: Option<&Seen>, now: i64) -> bool {
    let till = |seen: &Seen| {
        let mut members = seen.members.iter();
        members.find(|(member, _)| member.starts_with(owner)).map(|(_, till)| *till)
    };
    match till(seen) {
        // A waiter marks the holder's value, and changes nothing else in it.
        None => after != Some(seen) && after != Some(&marked(seen)),
        Some(before) => match after.and_then(till) {
            Some(after) => after != before,
            None => before > now / 1_000,
        },
    }
}

fn marked(seen: &Seen) -> Seen {
    let mut marked = seen.clone();
    if let Some(mark) = marked.text.get_mut(TOKEN) {
        *mark = b'!';
    }
    marked
}

fn keys_of(words: &[Vec<u8>]) -> &[Vec<u8>] {
    if words[0].eq_ignore_ascii_case(b"SET") {
        return &words[1..2];
    }
    let count = words.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
    words.get(3..3 + count.unwrap_or(0)).unwrap_or_default()
}

/// Returns whether the key belongs to a lock, and not to a helper or to the voter's marker.
pub(crate) fn is_lock(key: &[u8]) -> bool {
    !key.starts_with(b"{") && key != b"lock:voter"
}

/// Returns the owner token at the beginning of a word.
pub(crate) fn owner_of(word: &[u8]) -> Option<&[u8]> {
    let token = word.get(..TOKEN)?;
    // The token of a holder is followed by a space, or by the mark if there is a waiter.
    let ends = word.get(TOKEN).is_none_or(|next| matches!(next, b' ' | b'!'));
    (ends && token.iter().all(u8::is_ascii_hexdigit)).then_some(token)
}
