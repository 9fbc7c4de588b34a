//! What happened in one world, in its own time: the text for people who replay a seed, and a hash that tells two runs
//! apart.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::testkit::history::Hold;

use crate::resp::Reply;

/// The record of one run. Clones write into the same one.
#[derive(Clone)]
pub(crate) struct Journal {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    hash: DefaultHasher,
    /// Kept only where somebody wants to read it.
    text: Option<String>,
    owners: BTreeMap<Vec<u8>, Owner>,
    holds: Vec<Hold>,
    /// Between when and when those were asked for whose end no server need have been told.
    untold: Vec<(Duration, Duration)>,
    /// When a client was killed.
    deaths: Vec<Duration>,
    broken: Vec<String>,
    grants: usize,
}

/// How long after the death of its client a request may arrive.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// The random part of owner tokens that all owners of one process have in common.
const PROCESS: usize = 32;

thread_local! {
    static STOPPED: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// One owner as the servers see it.
#[derive(Debug)]
struct Owner {
    number: usize,
    first: Duration,
    /// Where a key was made for it.
    made: BTreeSet<String>,
    /// A server was asked to take it back.
    released: bool,
}

/// The true time, which only the world knows; zero where no host runs.
pub(crate) fn now() -> Duration {
    STOPPED.get().or_else(turmoil::sim_elapsed).unwrap_or_default()
}

/// Whether the world stands still.
pub(crate) fn is_stopped() -> bool {
    STOPPED.get().is_some()
}

/// Between two steps of the world its hosts have no time; it is `at` then.
pub(crate) fn stop(at: Option<Duration>) {
    STOPPED.set(at);
}

impl Journal {
    pub(crate) fn new(keeps_text: bool) -> Self {
        let inner = Inner {
            hash: DefaultHasher::new(),
            text: keeps_text.then(String::new),
            owners: BTreeMap::new(),
            holds: Vec::new(),
            untold: Vec::new(),
            deaths: Vec::new(),
            broken: Vec::new(),
            grants: 0,
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of an owner, in the order in which they appear: their tokens are random, and secret.
    pub(crate) fn owner(&self, token: &[u8]) -> usize {
        self.with_owner(token, |owner| owner.number)
    }

    fn with_owner<T>(&self, token: &[u8], look: impl FnOnce(&mut Owner) -> T) -> T {
        let first = now();
        let owners = &mut self.lock().owners;
        let number = owners.len() + 1;
        let new = || Owner { number, first, made: BTreeSet::new(), released: false };
        look(owners.entry(token.to_vec()).or_insert_with(new))
    }

    /// A server made a key for this owner.
    pub(crate) fn made(&self, server: &str, token: &[u8]) {
        self.with_owner(token, |owner| owner.made.insert(server.to_owned()));
    }

    /// A server was asked to take back what this owner has.
    pub(crate) fn released(&self, token: &[u8]) {
        self.with_owner(token, |owner| owner.released = true);
    }

    /// A client was killed, and whom it asked for is nobody's business any more.
    pub(crate) fn client_died(&self) {
        let at = now();
        self.lock().deaths.push(at);
        for owner in self.lock().owners.values_mut() {
            owner.released = true;
        }
    }

    /// Nobody may have been told of the end of this hold: it was lost, or its release was not answered before the lease
    /// was over.
    pub(crate) fn untold(&self, hold: &Hold) {
        self.lock().untold.push((hold.asked, hold.acquired));
    }

    /// The owners who had a key on a majority, and for whom nobody ever gave it back. On fewer servers one may stay until
    /// its lease is over, in nobody's way: the library says so.
    pub(crate) fn forgotten(&self, majority: usize) -> Vec<String> {
        let inner = self.lock();
        let untold = |owner: &Owner| {
            inner.untold.iter().any(|(asked, granted)| (asked..=granted).contains(&&owner.first))
        };
        // Its first request was on its way when its client died: nobody of the same process was heard of after it.
        let orphaned = |token: &[u8], owner: &Owner| {
            let died = |death: &Duration| (*death..*death + UNDER_WAY).contains(&owner.first);
            let later = |(of, other): (&Vec<u8>, &Owner)| {
                of[..PROCESS] == token[..PROCESS] && other.first > owner.first
            };
            inner.deaths.iter().any(died) && !inner.owners.iter().any(later)
        };
        let forgotten = |(token, owner): &(&Vec<u8>, &Owner)| {
            owner.made.len() >= majority && !owner.released && !untold(owner) && !orphaned(token, owner)
        };
        let forgotten = inner.owners.iter().filter(forgotten).map(|(_, owner)| owner);
        let text = |owner: &Owner| {
            format!(
                "owner {}, seen at {:?}, had a majority and was never given back",
                owner.number, owner.first
            )
        };
        forgotten.map(text).collect()
    }

    /// Notes what happened to `who` at `at`.
    pub(crate) fn note_at(&self, at: Duration, who: &str, what: fmt::Arguments<'_>) {
        let mut inner = self.lock();
        let line = |out: &mut dyn Write| writeln!(out, "{:>10.3} {who:<3} {what}", at.as_secs_f64() * 1e3);
        let _ = line(&mut Hashed(&mut inner.hash));
        if let Some(text) = &mut inner.text {
            let _ = line(text);
        }
    }

    /// Notes what happened to `who` now.
    pub(crate) fn note(&self, who: &str, what: fmt::Arguments<'_>) {
        self.note_at(now(), who, what);
    }

    /// Notes what a server did for `owner`; the key was `holder`'s.
    pub(crate) fn server(
        &self,
        server: &str,
        clock: i64,
        title: &str,
        (owner, holder): (Option<usize>, Option<usize>),
        reply: &Reply,
    ) {
        let clock = clock / 1_000 % 1_000_000;
        let (owner, holder) = (owner.unwrap_or(0), holder.unwrap_or(0));
        self.note(
            server,
            format_args!("{title} for {owner}, the key is {holder}'s: {} (its clock: {clock})", Brief(reply)),
        );
    }

    /// Notes that something was seen that must never be.
    pub(crate) fn broken(&self, what: String) {
        self.note("!!", format_args!("{what}"));
        self.lock().broken.push(what);
    }

    pub(crate) fn record(&self, hold: Hold) {
        self.lock().holds.push(hold);
    }

    pub(crate) fn granted(&self) {
        self.lock().grants += 1;
    }

    pub(crate) fn grants(&self) -> usize {
        self.lock().grants
    }

    pub(crate) fn holds(&self) -> Vec<Hold> {
        self.lock().holds.clone()
    }

    pub(crate) fn all_broken(&self) -> Vec<String> {
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

/// The verdict of an answer, without the values in it.
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
            Reply::Bulk(_) | Reply::Verbatim(_) | Reply::Map(_) => f.write_str("text"),
        }
    }
}
