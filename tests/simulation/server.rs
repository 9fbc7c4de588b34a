//! One simulated server: its data, its clock, its scripts, and its answers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::audit::{Asked, Audit, Look, owner_of};
use crate::keyspace::Keyspace;
use crate::lua::{Call, Scripts};
use crate::resp::Reply;
use crate::world::Flaw;

/// The time of all servers when the world begins, in us.
const BEGINNING: i64 = 1_763_000_000_000_000;

/// The clock of one server.
#[derive(Debug)]
pub(crate) struct ServerClock {
    /// How far the clock is ahead of the true time, in us.
    ahead: Cell<i64>,
    /// How much the clock gains, in us for each second.
    gains: i64,
    /// Returns the true time since the world began.
    truth: fn() -> Duration,
}

impl ServerClock {
    pub(crate) fn new(gains: i64, truth: fn() -> Duration) -> Self {
        Self { ahead: Cell::new(0), gains, truth }
    }

    /// Sets the clock forward by `by`.
    pub(crate) fn step(&self, by: i64) {
        self.ahead.set(self.ahead.get() + by);
    }

    /// Returns the time of the clock in us.
    pub(crate) fn now(&self) -> i64 {
        let truth = i64::try_from((self.truth)().as_micros()).expect("a short run");
        BEGINNING + truth + truth / 1_000 * self.gains / 1_000 + self.ahead.get()
    }
}

/// Changes a script before it is loaded. It plants a bug without a change of the library.
pub(crate) type Patch = Rc<dyn Fn(String) -> String>;

/// One server. It outlives its crashes. [`start`](Self::start) determines which data remain from its earlier life.
pub(crate) struct Server {
    pub(crate) name: String,
    data: Rc<RefCell<Keyspace>>,
    pub(crate) clock: Rc<ServerClock>,
    scripts: Scripts,
    life: Rc<Cell<u64>>,
    /// The number of keys that the server has evicted in this life.
    evicted: Rc<Cell<u64>>,
    /// Whether the server hides evictions from its clients.
    is_silent: bool,
    forgets: Cell<bool>,
    patch: Option<Patch>,
    audit: Audit,
}

/// The state of one connection.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    /// The name of the client.
    client: String,
    /// The commands since `MULTI`.
    queued: Option<Vec<Vec<Vec<u8>>>>,
}

impl Talk {
    pub(crate) fn with(client: String) -> Self {
        Self { client, queued: None }
    }
}

impl Server {
    pub(crate) fn new(name: String, clock: ServerClock, flaw: &Flaw, audit: Audit) -> Self {
        let (data, clock, life) = (Rc::<RefCell<Keyspace>>::default(), Rc::new(clock), Rc::new(Cell::new(0)));
        let evicted = Rc::new(Cell::new(0));
        let call: Call = {
            let (data, clock, name) = (Rc::clone(&data), Rc::clone(&clock), name.clone());
            let (life, evicted) = (Rc::clone(&life), Rc::clone(&evicted));
            Rc::new(move |words| run(&data, &clock, (&name, life.get(), evicted.get()), words))
        };
        let scripts = Scripts::new(call);
        let (patch, is_silent) = (flaw.patch.clone(), flaw.silent_evictions);
        Self { name, data, clock, scripts, life, evicted, is_silent, forgets: Cell::new(false), patch, audit }
    }

    /// Sets whether the next crash loses the data.
    pub(crate) fn forgets(&self, forgets: bool) {
        self.forgets.set(forgets);
    }

    /// Begins a life with another run id and no scripts. The data are kept unless they were lost.
    pub(crate) fn start(&self) {
        self.life.set(self.life.get() + 1);
        self.evicted.set(0);
        self.scripts.forget();
        if self.forgets.take() {
            self.data.borrow_mut().clear();
        }
    }

    /// Deletes all data of the running server.
    pub(crate) fn flush(&self) {
        self.data.borrow_mut().clear();
    }

    /// Evicts a key if it exists, like a server that is short of memory.
    pub(crate) fn evict(&self, key: &str) {
        let look = self.look_at(&[key.as_bytes().to_vec()]);
        for (key, seen) in &look {
            self.data.borrow_mut().remove(key);
            self.evicted.set(self.evicted.get() + 1);
            self.audit.evicted(&self.name, key, seen);
        }
    }

    /// Deletes a key, like a user without any relation to the locks.
    pub(crate) fn delete(&self, key: &[u8]) {
        self.data.borrow_mut().remove(key);
    }

    /// Returns the owner of an exclusive lock.
    pub(crate) fn holder(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut data = self.data.borrow_mut();
        data.set_now(self.clock.now() / 1_000);
        owner_of(&data.see(key)?.text).map(<[u8]>::to_vec)
    }

    /// Deletes the scripts of the running server.
    pub(crate) fn flush_scripts(&self) {
        self.scripts.forget();
    }

    /// Returns every live key with its text and expiry.
    pub(crate) fn look(&self) -> Look {
        let mut data = self.data.borrow_mut();
        data.set_now(self.clock.now() / 1_000);
        let keys = data.keys();
        keys.into_iter().filter_map(|key| data.see(&key).map(|seen| (key, seen))).collect()
    }

    /// Answers one request.
    pub(crate) fn answer(&self, talk: &mut Talk, words: Vec<Vec<u8>>) -> Reply {
        let name = words[0].to_ascii_uppercase();
        match name.as_slice() {
            b"MULTI" => {
                talk.queued = Some(Vec::new());
                Reply::ok()
            }
            b"EXEC" => match talk.queued.take() {
                Some(queued) => {
                    Reply::Array(queued.into_iter().map(|words| self.execute(&talk.client, &words)).collect())
                }
                None => Reply::error("ERR EXEC without MULTI"),
            },
            _ => match &mut talk.queued {
                Some(queued) => {
                    queued.push(words);
                    Reply::Status("QUEUED".to_owned())
                }
                None => self.execute(&talk.client, &words),
            },
        }
    }

    fn execute(&self, client: &str, words: &[Vec<u8>]) -> Reply {
        let name = words[0].to_ascii_uppercase();
        match (name.as_slice(), words.get(1).map(|word| word.to_ascii_uppercase())) {
            (b"HELLO", _) => hello(),
            // The answer is that of a server before 7.2.
            (b"CLIENT", Some(what)) if what == b"SETINFO" => Reply::error(
                "ERR Unknown subcommand or wrong number of arguments for 'SETINFO'. Try CLIENT HELP.",
            ),
            // The server never publishes a message on this channel.
            (b"SUBSCRIBE", Some(_)) if words.len() == 2 => {
                Reply::Push(vec![Reply::text("subscribe"), Reply::Bulk(words[1].clone()), Reply::Int(1)])
            }
            (b"PING", None) => Reply::Status("PONG".to_owned()),
            (b"SCRIPT", Some(what)) if what == b"LOAD" => self.load(&words[2]),
            (b"SCRIPT", Some(what)) if what == b"FLUSH" => {
                self.flush_scripts();
                Reply::ok()
            }
            (b"EVAL", _) => match self.load(&words[1]) {
                Reply::Bulk(name) => self.evaluate(client, &name, words),
                refused => refused,
            },
            // These scripts check the user's rights, with a key that never exists.
            (b"EVALSHA", _) if words[1].iter().all(|digit| *digit == b'0') => {
                Reply::error("NOSCRIPT No matching script. Please use EVAL.")
            }
            _ if words.get(1).is_some_and(|key| key == b"lock:rights") => Reply::Nil,
            (b"EVALSHA", _) => self.evaluate(client, &words[1], words),
            _ => {
                let (asked, keys) =
                    (Asked { client, script: b"", words }, words.get(1..2).unwrap_or_default());
                let (now, before) = (self.clock.now(), self.look_at(keys));
                let evicted = if self.is_silent { 0 } else { self.evicted.get() };
                let reply = run(&self.data, &self.clock, (&self.name, self.life.get(), evicted), words);
                self.audit.ran(&self.name, now, asked, &before, &reply);
                self.audit.changed(&self.name, asked, now, &before, &self.look_at(keys));
                reply
            }
        }
    }

    fn load(&self, text: &[u8]) -> Reply {
        let loaded = match &self.patch {
            Some(patch) => {
                let text = String::from_utf8(text.to_vec()).expect("scripts are text");
                self.scripts.load(patch(text).as_bytes())
            }
            None => self.scripts.load(text),
        };
        match loaded {
            Ok(name) => {
                self.audit.knows(&name, text);
                Reply::text(&*name)
            }
            Err(error) => Reply::Error(error),
        }
    }

    fn evaluate(&self, client: &str, script: &[u8], words: &[Vec<u8>]) -> Reply {
        let count = std::str::from_utf8(&words[2]).ok().and_then(|count| count.parse::<usize>().ok());
        let count = count.expect("a number of keys");
        let (keys, arguments) = words[3..].split_at(count);
        let script = std::str::from_utf8(script).expect("the name of a script");
        let (now, before) = (self.clock.now(), self.look_at(keys));
        let reply = self.scripts.run(script, keys, arguments);
        let asked = Asked { client, script: script.as_bytes(), words };
        self.audit.ran(&self.name, now, asked, &before, &reply);
        self.audit.changed(&self.name, asked, now, &before, &self.look_at(keys));
        reply
    }

    fn look_at(&self, keys: &[Vec<u8>]) -> Look {
        let mut data = self.data.borrow_mut();
        data.set_now(self.clock.now() / 1_000);
        keys.iter().filter_map(|key| data.see(key).map(|seen| (key.clone(), seen))).collect()
    }
}

/// Runs a command that both a client and a script can send.
fn run(
    data: &RefCell<Keyspace>,
    clock: &ServerClock,
    (name, life, evicted): (&str, u64, u64),
    words: &[Vec<u8>],
) -> Reply {
    let now = clock.now();
    match words[0].to_ascii_uppercase().as_slice() {
        b"TIME" => {
            let part = |number: i64| Reply::text(number.to_string());
            Reply::Array(vec![part(now / 1_000_000), part(now % 1_000_000)])
        }
        b"INFO" => Reply::Verbatim(info(name, life, evicted)),
        // The channel has no subscribers.
        b"PUBLISH" => Reply::Int(0),
        _ => {
            let mut data = data.borrow_mut();
            data.set_now(now / 1_000);
            let known = data.run(words);
            known.unwrap_or_else(|| panic!("{} is not simulated", String::from_utf8_lossy(&words[0])))
        }
    }
}

fn hello() -> Reply {
    let pair = |name: &str, value: Reply| (Reply::text(name), value);
    Reply::Map(vec![
        pair("server", Reply::text("redis")),
        pair("version", Reply::text("7.0.15")),
        pair("proto", Reply::Int(3)),
        pair("id", Reply::Int(1)),
        pair("mode", Reply::text("standalone")),
        pair("role", Reply::text("master")),
        pair("modules", Reply::Array(Vec::new())),
    ])
}

/// Returns the fields that the library reads. The run id belongs to this life of this server.
fn info(name: &str, life: u64, evicted: u64) -> String {
    let run: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:{run:0>20}{life:020x}\r\n\r\n\
         # Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\r\n# Persistence\r\nloading:0\r\n\r\n\
         # Stats\r\nevicted_keys:{evicted}\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n\
         # Cluster\r\ncluster_enabled:0\r\n"
    )
}
