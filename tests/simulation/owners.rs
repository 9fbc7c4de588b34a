//! The owners of one world from the view of its servers: the keys of each owner, and whether they are correct.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The longest time after the death of a client until one of its requests arrives.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// The length of the random part that all owner tokens of one process have in common.
const PROCESS: usize = 32;

/// Every owner that a server has seen.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    all: BTreeMap<Vec<u8>, Owner>,
    /// The owners of each client, in the order in which they were seen.
    of: BTreeMap<String, Vec<Vec<u8>>>,
    /// The grants of whose end the servers may never be informed.
    untold: Vec<Turn>,
    /// The times at which clients were killed.
    deaths: Vec<Duration>,
}

/// One round of one client, from its request to its grant. An owner that was first seen in this time belongs to the
/// round.
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
    /// The keys that the owner requests.
    keys: BTreeSet<Vec<u8>>,
    /// The servers on which a key was created for the owner.
    made: BTreeSet<String>,
    /// The servers on which the owner had all of its keys, with the last time.
    confirmed: BTreeMap<String, Duration>,
    /// Whether a server received a release of the owner.
    released: bool,
    /// Whether a server created a key for the owner after an eviction of that key, and before it was registered again.
    tainted: bool,
}

impl Owner {
    /// Returns whether the owner was granted something, and has not released it.
    fn is_used(&self) -> bool {
        !self.made.is_empty() && !self.released
    }
}

impl Owners {
    /// Returns the number of an owner, in the order of appearance. `client` sends its request at `now`.
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

    /// Returns the number of an owner, or zero if it is unknown.
    pub(crate) fn number(&self, token: &[u8]) -> usize {
        self.all.get(token).map_or(0, |owner| owner.number)
    }

    /// Records that the owner requests these keys.
    pub(crate) fn asks(&mut self, token: &[u8], keys: &[Vec<u8>]) {
        if let Some(owner) = self.all.get_mut(token) {
            owner.keys.extend(keys.iter().cloned());
        }
    }

    /// Records that a server created a key for this owner.
    pub(crate) fn made(&mut self, token: &[u8], server: &str, tainted: bool) {
        if let Some(owner) = self.all.get_mut(token) {
            owner.made.insert(server.to_owned());
            owner.tainted |= tainted;
        }
    }

    /// Records that a request of this owner was executed. `keys` are the keys that the owner now has on the server.
    pub(crate) fn has(&mut self, token: &[u8], server: &str, keys: &BTreeSet<&[u8]>, now: Duration) {
        if let Some(owner) = self.all.get_mut(token)
            && owner.keys.iter().all(|key| keys.contains(key.as_slice()))
        {
            owner.confirmed.insert(server.to_owned(), now);
        }
    }

    /// Records that a server received a release of this owner.
    pub(crate) fn released(&mut self, token: &[u8]) {
        if let Some(owner) = self.all.get_mut(token) {
            owner.released = true;
        }
    }

    /// Returns the client of this owner, and whether no other owner of that client may be in use.
    pub(crate) fn only_of(&self, token: &[u8]) -> Option<(String, bool)> {
        let client = self.all.get(token)?.client.clone();
        let used = |other: &&Vec<u8>| other.as_slice() != token && self.all[*other].is_used();
        let only = !self.of[&client].iter().any(|other| used(&other));
        Some((client, only))
    }

    /// Records that a client lost its grants. `holder` has the lock now.
    pub(crate) fn lost(&mut self, client: &str, holder: &[u8]) {
        let others = self.all.iter_mut().filter(|(token, _)| token.as_slice() != holder);
        others.filter(|(_, owner)| owner.client == client).for_each(|(_, owner)| owner.released = true);
    }

    /// Records that a client was killed. Its owners no longer count as unreleased.
    pub(crate) fn client_died(&mut self, at: Duration) {
        self.deaths.push(at);
        self.all.values_mut().for_each(|owner| owner.released = true);
    }

    /// Records that the servers may never be informed of the end of this hold. Either it was lost, or its release was
    /// not answered before the lease ended.
    pub(crate) fn untold(&mut self, turn: Turn) {
        self.untold.push(turn);
    }

    fn behind(&self, turn: &Turn) -> impl Iterator<Item = &Owner> {
        let tokens = self.of.get(&turn.client).map(Vec::as_slice).unwrap_or_default();
        let owners = tokens.iter().rev().map(|token| &self.all[token]);
        let (asked, granted) = (turn.asked, turn.granted);
        owners.take_while(move |owner| owner.first >= asked).filter(move |owner| owner.first <= granted)
    }

    /// Returns whether a majority of the servers had all keys of this round, at `since` or later.
    pub(crate) fn is_backed(&self, turn: &Turn, majority: usize, since: Duration) -> bool {
        let backed = |owner: &Owner| owner.confirmed.values().filter(|at| **at >= since).count() >= majority;
        self.behind(turn).any(backed)
    }

    /// Returns whether a server voted for this round after it had evicted a key of the round.
    pub(crate) fn is_tainted(&self, turn: &Turn) -> bool {
        self.behind(turn).any(|owner| owner.tainted)
    }

    /// Returns the owners that had a key on a majority and were never released. On fewer servers an owner may stay
    /// until its lease ends. There it blocks no client, as the library documents.
    pub(crate) fn forgotten(&self, majority: usize) -> Vec<String> {
        let untold = |owner: &Owner| {
            let of = |turn: &Turn| {
                turn.client == owner.client && (turn.asked..=turn.granted).contains(&owner.first)
            };
            self.untold.iter().any(of)
        };
        // The first request was in flight when the client died, and no later owner of the same process was seen.
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
