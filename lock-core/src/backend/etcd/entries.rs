//! The entries of this process, each noted from before the request that creates it until its release.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::keyspace;
use super::line::Entry;
use super::session::{Session, now};
use crate::clock::{self, Moment};
use crate::key::Key;
use crate::owner::Owner;
use crate::sync::Mutex;

/// Names the entry of one owner in the queue of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    /// The beginning of the stored keys of the queue.
    pub(super) line: Vec<u8>,
    pub(super) owner: Owner,
}

impl Id {
    pub(super) fn new(key: &Key, owner: Owner) -> Self {
        Self { line: keyspace::line(key).0, owner }
    }
}

/// The lease that an entry is bound to.
#[derive(Clone)]
pub(super) enum Lease {
    Shared(Arc<Session>),
    /// A lease for this entry alone, which expires: for a lock that is not renewed.
    Own {
        id: i64,
        ttl: Duration,
        sent: Moment,
    },
}

impl Lease {
    pub(super) fn id(&self) -> i64 {
        match self {
            Self::Shared(session) => session.id,
            Self::Own { id, .. } => *id,
        }
    }

    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Shared(session) => Some(session),
            Self::Own { .. } => None,
        }
    }

    fn is_over(&self) -> bool {
        self.session().is_some_and(|session| session.is_over())
    }
}

/// The state of an entry.
#[derive(Clone)]
pub(super) struct Mine {
    pub(super) stored: Vec<u8>,
    pub(super) lease: Lease,
    /// The revision at which it was created; `None` until that is answered.
    pub(super) created: Option<i64>,
    /// The revision at which it was last written.
    pub(super) modified: i64,
    /// A time at which it was certainly bound to the lease.
    pub(super) bound: Moment,
    /// When its waiter last attempted the claim or began to wait for its turn, or when the entry was last given up.
    pub(super) asked: Moment,
    pub(super) holds: bool,
    /// The revision from which its fencing tokens are counted, once it is known.
    pub(super) since: Option<Since>,
    /// Other leases to which an unanswered request may have bound it, or may bind it later. Until it is written again,
    /// no grant relies on its lease.
    pub(super) maybe: Vec<i64>,
    /// Its separate leases, which the release revokes.
    pub(super) own_leases: Vec<i64>,
    pub(super) told: Told,
}

/// Whether the value of an entry says when it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It does, or another request may have written it.
    Done,
    /// There is nothing to say yet.
    Waits,
    /// Not yet: it was granted at this time, by the wall clock.
    Granted(Duration),
}

impl Told {
    /// Returns the state after a grant at this moment.
    pub(super) fn granted(self) -> Self {
        match self {
            Self::Waits => Self::Granted(clock::wall()),
            told => told,
        }
    }

    /// Returns the time that the value does not say yet.
    pub(super) fn due(self) -> Option<Duration> {
        match self {
            Self::Granted(at) => Some(at),
            Self::Done | Self::Waits => None,
        }
    }
}

impl Mine {
    /// Returns whether it is certainly bound to its lease.
    pub(super) fn is_certain(&self) -> bool {
        self.maybe.is_empty()
    }

    /// Notes that one request to bind it to `lease` did nothing. Other such requests may be under way.
    pub(super) fn is_not_on(&mut self, lease: i64) {
        if let Some(at) = self.maybe.iter().position(|maybe| *maybe == lease) {
            self.maybe.swap_remove(at);
        }
    }

    /// Notes the entry that was read at its stored key.
    fn saw(&mut self, entry: &Entry) {
        if self.lease.id() != entry.lease && self.is_certain() {
            self.maybe.push(entry.lease);
        }
        // A downgrade whose answer was lost, for example: the value that is known here may be outdated.
        if self.created.is_some() && self.modified != entry.modified {
            self.told = Told::Done;
        }
        (self.created, self.modified) = (Some(entry.created), entry.modified);
    }
}

/// A revision from which the fencing tokens of a holder are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since {
    pub(super) revision: i64,
    /// How often the grant had been handed off by then.
    pub(super) handoffs: u64,
}

#[derive(Default)]
pub(super) struct Entries(Mutex<Table>);

#[derive(Default)]
struct Table {
    entries: HashMap<Id, Mine>,
    /// The entries by stored key, so those of a queue are together.
    names: BTreeMap<Vec<u8>, Id>,
}

impl Entries {
    pub(super) fn get(&self, id: &Id) -> Option<Mine> {
        self.0.lock().entries.get(id).cloned()
    }

    /// Returns whether this process has an entry in a queue.
    pub(super) fn any_in(&self, line: &[u8]) -> bool {
        let table = self.0.lock();
        table.names.range(line.to_vec()..).next().is_some_and(|(name, _)| name.starts_with(line))
    }

    /// Returns the state of entries, if all are known.
    pub(super) fn known(&self, ids: &[Id]) -> Option<Vec<Mine>> {
        let table = self.0.lock();
        ids.iter().map(|id| table.entries.get(id).cloned()).collect()
    }

    /// Notes an entry that is about to be created, bound to `lease`. Returns its stored key, made of the lease and a
    /// number as in the recipe of etcd. A process reuses the names of a key: a read walks over all names that were ever
    /// used until the history of etcd is compacted. The names in `used` belong to other entries.
    pub(super) fn begin(&self, id: &Id, lease: Lease, told: Told, used: &[Vec<u8>], at: Moment) -> Vec<u8> {
        let mut table = self.0.lock();
        let mut names = (0..).map(|number| keyspace::entry(&id.line, lease.id(), number));
        let is_free = |name: &Vec<u8>| !table.names.contains_key(name) && !used.contains(name);
        let stored = names.find(is_free).unwrap_or_default();
        let own_leases = if lease.session().is_none() { vec![lease.id()] } else { Vec::new() };
        let mine = Mine {
            stored: stored.clone(),
            lease,
            created: None,
            modified: 0,
            bound: at,
            asked: at,
            holds: false,
            since: None,
            maybe: Vec::new(),
            own_leases,
            told,
        };
        table.insert(id.clone(), mine);
        stored
    }

    /// Notes an entry that was read. Returns its state.
    pub(super) fn note(&self, id: &Id, entry: &Entry) -> Mine {
        let mut table = self.0.lock();
        let known = table.remove(id).filter(|mine| mine.stored == entry.stored);
        let mut mine = known.unwrap_or_else(|| Mine {
            stored: entry.stored.clone(),
            // The lease is unknown, so the entry is bound to another one before the claim relies on it.
            lease: Lease::Own { id: entry.lease, ttl: Duration::ZERO, sent: now() },
            created: None,
            modified: 0,
            bound: now(),
            asked: now(),
            holds: false,
            since: None,
            maybe: vec![entry.lease],
            own_leases: Vec::new(),
            told: Told::Done,
        });
        mine.saw(entry);
        table.insert(id.clone(), mine.clone());
        mine
    }

    /// Marks an entry as a holder of its key since `revision`; `None` if other holders may have the same one. Returns
    /// its state; `None` if it is not certainly bound to a live lease: the check before the request may be outdated.
    pub(super) fn grant(&self, id: &Id, revision: Option<i64>) -> Option<Mine> {
        let mut table = self.0.lock();
        let mine = table.entries.get_mut(id).filter(|mine| mine.is_certain() && !mine.lease.is_over())?;
        mine.holds = true;
        mine.told = mine.told.granted();
        mine.since = mine.since.or(revision.map(|revision| Since { revision, handoffs: 0 }));
        Some(mine.clone())
    }

    pub(super) fn change(&self, id: &Id, change: impl FnOnce(&mut Mine)) {
        if let Some(mine) = self.0.lock().entries.get_mut(id) {
            change(mine);
        }
    }

    pub(super) fn remove(&self, id: &Id) -> Option<Mine> {
        self.0.lock().remove(id)
    }

    /// Ends a session if no entry is bound to it, or may be. Returns whether it did.
    ///
    /// A request may have chosen the session before. If it has noted its entry already, the session stays. Otherwise
    /// the request finds the session ended when it is answered, and relies on nothing.
    pub(super) fn end_unused(&self, session: &Session) -> bool {
        let table = self.0.lock();
        let uses = |mine: &Mine| mine.lease.id() == session.id || mine.maybe.contains(&session.id);
        let is_unused = !table.entries.values().any(uses);
        if is_unused {
            session.end();
        }
        is_unused
    }

    /// Forgets the entries that were bound to a lease. Returns the owners that held their keys, each once.
    pub(super) fn lost(&self, lease: i64) -> Vec<Owner> {
        let mut table = self.0.lock();
        let bound = table.entries.iter().filter(|(_, mine)| mine.lease.id() == lease && mine.is_certain());
        let lost: Vec<Id> = bound.map(|(id, _)| id.clone()).collect();
        let mut owners = HashSet::new();
        for id in lost {
            if table.remove(&id).is_some_and(|mine| mine.holds) {
                owners.insert(id.owner);
            }
        }
        owners.into_iter().collect()
    }

    /// Returns at most `limit` waiting entries under a lease for which no waiter has asked for as `long`. They are marked
    /// as uncertain: a waiter that asks now writes its entry before it relies on it. If its deletion fails, an entry is
    /// returned again only after that time, so that it does not take the place of others.
    pub(super) fn doubt_unasked(
        &self,
        lease: i64,
        long: Duration,
        at: Moment,
        limit: usize,
    ) -> Vec<(Id, Mine)> {
        let mut table = self.0.lock();
        let is_unasked = |mine: &Mine| {
            mine.lease.id() == lease
                && mine.created.is_some()
                && !mine.holds
                && mine.asked.plus(long).is_past(at)
        };
        let unasked = table.entries.iter_mut().filter(|(_, mine)| is_unasked(mine)).take(limit);
        let doubt = |(id, mine): (&Id, &mut Mine)| {
            if mine.is_certain() {
                mine.maybe.push(lease);
            }
            mine.asked = at;
            (id.clone(), mine.clone())
        };
        unasked.map(doubt).collect()
    }

    /// Notes the result of a request to delete `given_up` unless it has changed: the entry `found`, or none. An earlier
    /// write or deletion whose answer was lost also shows here.
    pub(super) fn deleted(&self, id: &Id, given_up: &Mine, found: Option<&Entry>) {
        let mut table = self.0.lock();
        let is_it = |mine: &&mut Mine| mine.stored == given_up.stored;
        match (table.entries.get_mut(id).filter(is_it), found) {
            (Some(mine), Some(entry)) if entry.owner == Some(id.owner) => mine.saw(entry),
            (Some(mine), None) if mine.modified == given_up.modified && !mine.holds => {
                drop(table.remove(id));
            }
            _ => {}
        }
    }

    /// Returns the entries with these stored keys.
    pub(super) fn named(&self, names: &[Vec<u8>]) -> Vec<(Id, Mine)> {
        let table = self.0.lock();
        let named = names.iter().filter_map(|name| table.entries.get_key_value(table.names.get(name)?));
        named.map(|(id, mine)| (id.clone(), mine.clone())).collect()
    }
}

impl Table {
    fn insert(&mut self, id: Id, mine: Mine) {
        self.remove(&id);
        self.names.insert(mine.stored.clone(), id.clone());
        self.entries.insert(id, mine);
    }

    fn remove(&mut self, id: &Id) -> Option<Mine> {
        let mine = self.entries.remove(id)?;
        self.names.remove(&mine.stored);
        Some(mine)
    }
}

#[cfg(test)]
mod tests;
