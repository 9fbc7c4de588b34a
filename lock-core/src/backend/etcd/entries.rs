//! Records the entries of this process in the queues of keys. Each entry is recorded before the request that creates it
//! is sent, and stays recorded until its release.

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

/// Identifies the entry of one owner in the queue of one key.
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
    /// A separate lease for a lock that is not renewed. This lease expires.
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
    /// The revision at which the entry was created; `None` until the creating request is answered.
    pub(super) created: Option<i64>,
    /// The revision at which the entry was last written.
    pub(super) modified: i64,
    /// A time at which the entry was certainly bound to the lease.
    pub(super) bound: Moment,
    /// The time of the latest of three events: the claim was attempted, its waiter began to wait for its turn, or a
    /// request to delete the entry was sent.
    pub(super) asked: Moment,
    pub(super) holds: bool,
    /// The revision from which the fencing tokens of the entry are counted, if it is known.
    pub(super) since: Option<Since>,
    /// Other leases to which an unanswered request may have bound the entry, or may still bind it. Until the entry is
    /// written again, no grant relies on the lease of the entry.
    pub(super) maybe: Vec<i64>,
    /// The separate leases of the entry, which the release revokes.
    pub(super) own_leases: Vec<i64>,
    pub(super) told: Told,
}

/// Whether the stored value of an entry contains the time of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The value contains the time, or another request may have written the value.
    Done,
    /// The entry is not granted yet.
    Waits,
    /// The value does not contain the time yet. The entry was granted at this time by the wall clock.
    Granted(Duration),
}

impl Told {
    /// Returns the state after a grant at the current time.
    pub(super) fn granted(self) -> Self {
        match self {
            Self::Waits => Self::Granted(clock::wall()),
            told => told,
        }
    }

    /// Returns the time of the grant if the value does not contain it yet.
    pub(super) fn due(self) -> Option<Duration> {
        match self {
            Self::Granted(at) => Some(at),
            Self::Done | Self::Waits => None,
        }
    }
}

impl Mine {
    /// Returns whether the entry is certainly bound to its lease.
    pub(super) fn is_certain(&self) -> bool {
        self.maybe.is_empty()
    }

    /// Records that one request to bind the entry to `lease` had no effect. Other such requests may be in flight.
    pub(super) fn is_not_on(&mut self, lease: i64) {
        if let Some(at) = self.maybe.iter().position(|maybe| *maybe == lease) {
            self.maybe.swap_remove(at);
        }
    }

    /// Records the entry that was read at the stored key.
    fn saw(&mut self, entry: &Entry) {
        if self.lease.id() != entry.lease && self.is_certain() {
            self.maybe.push(entry.lease);
        }
        // The recorded state may be outdated, for example after a downgrade whose answer was lost.
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
    /// The number of hand-offs of the grant up to that revision.
    pub(super) handoffs: u64,
}

#[derive(Default)]
pub(super) struct Entries(Mutex<Table>);

#[derive(Default)]
struct Table {
    entries: HashMap<Id, Mine>,
    /// The entries by stored key, so that the entries of one queue are adjacent.
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

    /// Returns the states of entries, or `None` if one is not recorded.
    pub(super) fn known(&self, ids: &[Id]) -> Option<Vec<Mine>> {
        let table = self.0.lock();
        ids.iter().map(|id| table.entries.get(id).cloned()).collect()
    }

    /// Records an entry that is about to be created and bound to `lease`. Returns its stored key. The names in `used`
    /// belong to other entries, and are not chosen.
    pub(super) fn begin(&self, id: &Id, lease: &Lease, told: Told, used: &[Vec<u8>], at: Moment) -> Vec<u8> {
        let mut table = self.0.lock();
        let stored = table.free_names(&id.line, lease.id(), used).next().unwrap_or_default();
        table.begin(id, &stored, lease, told, at);
        stored
    }

    /// Records entries of one queue that are about to be created by one transaction. Returns their stored keys in the
    /// same order, with rising numbers in their names, and `None` for a claim that has recorded another entry
    /// meanwhile. As in etcd's own lock recipe, a name consists of the lease id and a number. A process reuses the
    /// names of a key, because a read visits all names that were used since the last compaction of etcd's history.
    pub(super) fn begin_all(
        &self,
        ids: &[Id],
        lease: &Lease,
        told: Told,
        used: &[Vec<u8>],
        at: Moment,
    ) -> Vec<Option<Vec<u8>>> {
        let mut table = self.0.lock();
        let Some(first) = ids.first() else { return Vec::new() };
        let mut names =
            table.free_names(&first.line, lease.id(), used).take(ids.len()).collect::<Vec<_>>().into_iter();
        let begin = |id: &Id| {
            let stored = names.next().filter(|_| !table.entries.contains_key(id))?;
            table.begin(id, &stored, lease, told, at);
            Some(stored)
        };
        ids.iter().map(begin).collect()
    }

    /// Records an entry that was read. Returns its state.
    pub(super) fn note(&self, id: &Id, entry: &Entry) -> Mine {
        let mut table = self.0.lock();
        let known = table.remove(id).filter(|mine| mine.stored == entry.stored);
        let mut mine = known.unwrap_or_else(|| Mine {
            stored: entry.stored.clone(),
            // This process has no session for the lease. So it binds the entry to another lease before the claim relies
            // on the entry.
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

    /// Marks an entry as a holder of its key since `revision`. `revision` is `None` if other holders may have the same
    /// revision. Returns the state of the entry, or `None` if the entry is not certainly bound to a live lease. This
    /// check is needed here, because an earlier check of the lease may be outdated.
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

    /// Removes the record of an entry that was not created. If the claim was dropped meanwhile, it may have another
    /// entry, whose record stays.
    pub(super) fn not_created(&self, id: &Id, stored: &[u8]) {
        let mut table = self.0.lock();
        if table.entries.get(id).is_some_and(|mine| mine.stored == stored) {
            table.remove(id);
        }
    }

    /// Ends a session if no entry is bound to it, and no request may still bind one. Returns whether the session was
    /// ended.
    ///
    /// Another request may have chosen the session before this call. If that request has already recorded its entry,
    /// the session stays. Otherwise the request finds the session ended when it is answered, and grants nothing.
    pub(super) fn end_unused(&self, session: &Session) -> bool {
        let table = self.0.lock();
        let uses = |mine: &Mine| mine.lease.id() == session.id || mine.maybe.contains(&session.id);
        let is_unused = !table.entries.values().any(uses);
        if is_unused {
            session.end();
        }
        is_unused
    }

    /// Removes the records of the entries that were bound to a lease. Returns the owners that held their keys, without
    /// duplicates.
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

    /// Returns at most `limit` entries that are bound to `lease`, do not hold their keys, and whose claims have been
    /// inactive for the time `long`. Marks them as uncertain, so that a claim that becomes active again writes its
    /// entry again before it relies on the entry. If the deletion of an entry fails, this returns the entry again only
    /// after another `long`, so that other entries are deleted first.
    ///
    /// The answer to the creation of such an entry may be unread, because its claim is not polled.
    pub(super) fn doubt_unasked(
        &self,
        lease: i64,
        long: Duration,
        at: Moment,
        limit: usize,
    ) -> Vec<(Id, Mine)> {
        let mut table = self.0.lock();
        let is_unasked =
            |mine: &Mine| mine.lease.id() == lease && !mine.holds && mine.asked.plus(long).is_past(at);
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

    /// Records the result of a request that deletes the entry `given_up` if that entry is unchanged. `found` is the
    /// changed entry, or `None` if the entry no longer exists. The result also reveals an earlier write or deletion
    /// whose answer was lost.
    pub(super) fn deleted(&self, id: &Id, given_up: &Mine, found: Option<&Entry>) {
        let mut table = self.0.lock();
        let is_it = |mine: &&mut Mine| mine.stored == given_up.stored;
        match (table.entries.get_mut(id).filter(is_it), found) {
            (Some(mine), Some(entry)) if entry.owner == Some(id.owner) => mine.saw(entry),
            // The record of an unanswered creation stays, because the request may still create the entry.
            (Some(mine), None)
                if mine.created.is_some() && mine.modified == given_up.modified && !mine.holds =>
            {
                drop(table.remove(id));
            }
            _ => {}
        }
    }

    pub(super) fn named(&self, names: &[Vec<u8>]) -> Vec<(Id, Mine)> {
        let table = self.0.lock();
        let named = names.iter().filter_map(|name| table.entries.get_key_value(table.names.get(name)?));
        named.map(|(id, mine)| (id.clone(), mine.clone())).collect()
    }
}

impl Table {
    fn free_names(&self, line: &[u8], lease: i64, used: &[Vec<u8>]) -> impl Iterator<Item = Vec<u8>> {
        let names = (0..).map(move |number| keyspace::entry(line, lease, number));
        names.filter(move |name| !self.names.contains_key(name) && !used.contains(name))
    }

    fn begin(&mut self, id: &Id, stored: &[u8], lease: &Lease, told: Told, at: Moment) {
        let own_leases = if lease.session().is_none() { vec![lease.id()] } else { Vec::new() };
        let mine = Mine {
            stored: stored.to_vec(),
            lease: lease.clone(),
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
        self.insert(id.clone(), mine);
    }

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
