//! The owners of one world as its servers see them: what each has, and whether that is as it should be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long after the death of its client a request may arrive.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// The random part of owner tokens that all owners of one process have in common.
const PROCESS: usize = 32;

/// Every owner that a server has heard of.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    all: BTreeMap<Vec<u8>, Owner>,
    /// Of each client, in the order in which they were heard of.
    of: BTreeMap<String, Vec<Vec<u8>>>,
    /// The turns after whose end no server need have been told.
    untold: Vec<Turn>,
    /// When a client was killed.
    deaths: Vec<Duration>,
}

/// One turn of one client, from its question to its grant. Who was heard of in between is its owner.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) client: String,
    pub(crate) asked: Duration,
    pub(crate) granted: Duration,
}

/// One owner.
#[derive(Debug)]
struct Owner {
    number: usize,
    client: String,
    first: Duration,
    /// What it asks for.
    keys: BTreeSet<Vec<u8>>,
    /// Where a key was made for it.
    made: BTreeSet<String>,
    /// Where it had all of its keys, and when last.
    confirmed: BTreeMap<String, Duration>,
    /// A server was asked to take it back.
    released: bool,
    /// A server made a key for it that it had thrown away, and had not been asked about since.
    tainted: bool,
}

impl Owner {
    /// It was granted something, and has not given it back.
    fn is_used(&self) -> bool {
        !self.made.is_empty() && !self.released
    }
}

impl Owners {
    /// The number of an owner, in the order in which they appear; `client` asks for it at `now`.
    pub(crate) fn hear(&mut self, token: &[u8], client: &str, now: Duration) -> usize {
        let number = self.all.len() + 1;
        if !self.all.contains_key(token) {
            let owner = Owner {
                number,
                client: client.to_owned(),
                first: now,
                keys: BTreeSet::new(),
                made: BTreeSet::new(),
                confirmed: BTreeMap::new(),
                released: false,
                tainted: false,
            };
            self.all.insert(token.to_vec(), owner);
            self.of.entry(client.to_owned()).or_default().push(token.to_vec());
        }
        self.all[token].number
    }

    /// The number of an owner, zero for one that was never heard of.
    pub(crate) fn number(&self, token: &[u8]) -> usize {
        self.all.get(token).map_or(0, |owner| owner.number)
    }

    /// The owner asks for these keys.
    pub(crate) fn asks(&mut self, token: &[u8], keys: &[Vec<u8>]) {
        if let Some(owner) = self.all.get_mut(token) {
            owner.keys.extend(keys.iter().cloned());
        }
    }

    /// A server made a key for this owner.
    pub(crate) fn made(&mut self, token: &[u8], server: &str, tainted: bool) {
        if let Some(owner) = self.all.get_mut(token) {
            owner.made.insert(server.to_owned());
            owner.tainted |= tainted;
        }
    }

    /// A request of this owner was run, and it has these keys on the server.
    pub(crate) fn has(&mut self, token: &[u8], server: &str, keys: &BTreeSet<&[u8]>, now: Duration) {
        if let Some(owner) = self.all.get_mut(token)
            && owner.keys.iter().all(|key| keys.contains(key.as_slice()))
        {
            owner.confirmed.insert(server.to_owned(), now);
        }
    }

    /// A server was asked to take back what this owner has.
    pub(crate) fn released(&mut self, token: &[u8]) {
        if let Some(owner) = self.all.get_mut(token) {
            owner.released = true;
        }
    }

    /// Whose this owner is, and whether it is the only one of that client that may be in use.
    pub(crate) fn only_of(&self, token: &[u8]) -> Option<(String, bool)> {
        let client = self.all.get(token)?.client.clone();
        let used = |other: &&Vec<u8>| other.as_slice() != token && self.all[*other].is_used();
        let only = !self.of[&client].iter().any(|other| used(&other));
        Some((client, only))
    }

    /// A client was told that it has lost what it had; `holder` has it now.
    pub(crate) fn lost(&mut self, client: &str, holder: &[u8]) {
        let others = self.all.iter_mut().filter(|(token, _)| token.as_slice() != holder);
        others.filter(|(_, owner)| owner.client == client).for_each(|(_, owner)| owner.released = true);
    }

    /// A client was killed, and whom it asked for is nobody's business any more.
    pub(crate) fn client_died(&mut self, at: Duration) {
        self.deaths.push(at);
        self.all.values_mut().for_each(|owner| owner.released = true);
    }

    /// Nobody may have been told of the end of this hold: it was lost, or its release was not answered before the lease
    /// was over.
    pub(crate) fn untold(&mut self, turn: Turn) {
        self.untold.push(turn);
    }

    fn behind(&self, turn: &Turn) -> impl Iterator<Item = &Owner> {
        let tokens = self.of.get(&turn.client).map(Vec::as_slice).unwrap_or_default();
        let owners = tokens.iter().rev().map(|token| &self.all[token]);
        let (asked, granted) = (turn.asked, turn.granted);
        owners.take_while(move |owner| owner.first >= asked).filter(move |owner| owner.first <= granted)
    }

    /// Whether so many servers had everything that was asked for in this turn, at `since` or later.
    pub(crate) fn is_backed(&self, turn: &Turn, majority: usize, since: Duration) -> bool {
        let backed = |owner: &Owner| owner.confirmed.values().filter(|at| **at >= since).count() >= majority;
        self.behind(turn).any(backed)
    }

    /// Whether a vote for this turn is one that a server gave because it had thrown away what it knew.
    pub(crate) fn is_tainted(&self, turn: &Turn) -> bool {
        self.behind(turn).any(|owner| owner.tainted)
    }

    /// The owners who had a key on a majority, and for whom nobody ever gave it back. On fewer servers one may stay until
    /// its lease is over, in nobody's way: the library says so.
    pub(crate) fn forgotten(&self, majority: usize) -> Vec<String> {
        let untold = |owner: &Owner| {
            let of = |turn: &Turn| {
                turn.client == owner.client && (turn.asked..=turn.granted).contains(&owner.first)
            };
            self.untold.iter().any(of)
        };
        // Its first request was on its way when its client died: nobody of the same process was heard of after it.
        let orphaned = |token: &[u8], owner: &Owner| {
            let died = |death: &Duration| (*death..*death + UNDER_WAY).contains(&owner.first);
            let later = |(of, other): (&Vec<u8>, &Owner)| {
                of[..PROCESS] == token[..PROCESS] && other.first > owner.first
            };
            self.deaths.iter().any(died) && !self.all.iter().any(later)
        };
        let forgotten = |(token, owner): &(&Vec<u8>, &Owner)| {
            owner.made.len() >= majority && !owner.released && !untold(owner) && !orphaned(token, owner)
        };
        let text = |owner: &Owner| {
            format!(
                "owner {}, seen at {:?}, had a majority and was never given back",
                owner.number, owner.first
            )
        };
        self.all.iter().filter(forgotten).map(|(_, owner)| text(owner)).collect()
    }
}
