//! The events of one world, in its own time. The journal has a text for people who replay a seed, and a hash that
//! distinguishes two runs.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::testkit::history::Hold;

use crate::check::{Oracle, Wrong};
use crate::owners::{Owners, Turn};
use crate::process;
use crate::resp::Reply;

/// The record of one run. All clones write into the same record.
#[derive(Clone)]
pub(crate) struct Journal {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    hash: DefaultHasher,
    /// The text, which exists only if a person wants to read it.
    text: Option<String>,
    owners: Owners,
    holds: Vec<Hold>,
    broken: Vec<Wrong>,
    /// How often each event happened that a run must have to prove anything.
    seen: BTreeMap<&'static str, usize>,
}

thread_local! {
    static STOPPED: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Returns the true time, which only the world knows. Outside of its hosts, it is zero.
pub(crate) fn now() -> Duration {
    STOPPED.get().or_else(process::now).or_else(turmoil::sim_elapsed).unwrap_or_default()
}

/// Returns whether the world is between two steps.
pub(crate) fn is_stopped() -> bool {
    STOPPED.get().is_some()
}

/// Sets the time to `at` between two steps of the world, when its hosts have no time.
pub(crate) fn stop(at: Option<Duration>) {
    STOPPED.set(at);
}

impl Journal {
    pub(crate) fn new(keeps_text: bool) -> Self {
        let inner = Inner {
            hash: DefaultHasher::new(),
            text: keeps_text.then(String::new),
            owners: Owners::default(),
            holds: Vec::new(),
            broken: Vec::new(),
            seen: BTreeMap::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the record of the owners.
    pub(crate) fn owners<T>(&self, look: impl FnOnce(&mut Owners) -> T) -> T {
        look(&mut self.lock().owners)
    }

    /// Records that a client was killed.
    pub(crate) fn client_died(&self) {
        let at = now();
        self.owners(|owners| owners.client_died(at));
    }

    /// Records that the servers may never be informed of the end of this grant.
    pub(crate) fn untold(&self, turn: &Turn) {
        self.owners(|owners| owners.untold(turn.clone()));
    }

    /// Records an event of `who` at `at`.
    pub(crate) fn note_at(&self, at: Duration, who: &str, what: fmt::Arguments<'_>) {
        let mut inner = self.lock();
        let line = |out: &mut dyn Write| writeln!(out, "{:>10.3} {who:<3} {what}", at.as_secs_f64() * 1e3);
        let _ = line(&mut Hashed(&mut inner.hash));
        if let Some(text) = &mut inner.text {
            let _ = line(text);
        }
    }

    /// Records an event of `who` now.
    pub(crate) fn note(&self, who: &str, what: fmt::Arguments<'_>) {
        self.note_at(now(), who, what);
    }

    /// Records what a server did for `owner` on a key of `holder`.
    pub(crate) fn server(
        &self,
        server: &str,
        clock: i64,
        title: &str,
        (client, owner, holder): (&str, usize, usize),
        reply: &Reply,
    ) {
        let clock = clock / 1_000 % 1_000_000;
        self.note(
            server,
            format_args!(
                "{title} for {client}'s {owner}, the key is {holder}'s: {} (its clock: {clock})",
                Brief(reply)
            ),
        );
    }

    /// Records a violation.
    pub(crate) fn broken(&self, by: Oracle, what: String) {
        self.note("!!", format_args!("{what}"));
        self.lock().broken.push(Wrong { by, what });
    }

    pub(crate) fn record(&self, hold: Hold) {
        self.lock().holds.push(hold);
    }

    /// Counts an event that a run must have.
    pub(crate) fn count(&self, what: &'static str) {
        *self.lock().seen.entry(what).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        self.lock().seen.clone()
    }

    pub(crate) fn holds(&self) -> Vec<Hold> {
        self.lock().holds.clone()
    }

    pub(crate) fn all_broken(&self) -> Vec<Wrong> {
        self.lock().broken.clone()
    }

    pub(crate) fn hash(&self) -> u64 {
        self.lock().hash.finish()
    }

    pub(crate) fn text(&self) -> String {
        self.lock().text.clone().unwrap_or_default()
    }
}

struct Hashed<'a>(&'a mut DefaultHasher);

impl Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// The type of an answer, without its values.
struct Brief<'a>(&'a Reply);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reply::Nil => f.write_str("nil"),
            Reply::Status(text) | Reply::Error(text) => f.write_str(text),
            Reply::Int(number) => write!(f, "{number}"),
            Reply::Array(all) => match all.first() {
                Some(Reply::Int(number)) => write!(f, "{number}"),
                _ => f.write_str("an array"),
            },
            Reply::Bulk(_) | Reply::Verbatim(_) | Reply::Push(_) | Reply::Map(_) => f.write_str("text"),
        }
    }
}
