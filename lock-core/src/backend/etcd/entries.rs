//! The entries of this process, each from before the request that creates it until it is released.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::keyspace;
use super::session::Session;
use crate::clock::Moment;
use crate::key::Key;
use crate::owner::Owner;
use crate::sync::Mutex;

/// The entry of one owner in the queue of one key.
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
    /// When it was certainly bound to the lease.
    pub(super) bound: Moment,
    /// When its waiter last asked for it, or began to wait for its turn.
    pub(super) asked: Moment,
    pub(super) holds: bool,
    /// From when its fencing tokens are counted, once that is known.
    pub(super) since: Option<Since>,
    /// Other leases to which an unanswered request may have bound it, or may bind it later. Until it is written again,
    /// no grant relies on its lease.
    pub(super) maybe: Vec<i64>,
    /// The separate leases of single entries.
    pub(super) own_leases: Vec<i64>,
}

impl Mine {
    /// Returns whether it is certainly bound to its lease.
    pub(super) fn is_certain(&self) -> bool {
        self.maybe.is_empty()
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
    /// The stored keys of all of them.
    names: HashSet<Vec<u8>>,
}

impl Entries {
    pub(super) fn get(&self, id: &Id) -> Option<Mine> {
        self.0.lock().entries.get(id).cloned()
    }

    /// Returns the state of entries, if all are known.
    pub(super) fn all(&self, ids: &[Id]) -> Option<Vec<Mine>> {
        let table = self.0.lock();
        ids.iter().map(|id| table.entries.get(id).cloned()).collect()
    }

    /// Notes an entry that is about to be created, bound to `lease`. Returns its stored key: the lease and a number, as
    /// the recipe of etcd has it. So a key that one process locks again and again has one name in etcd, which walks
    /// over all names that were ever used until its history is compacted.
    pub(super) fn begin(&self, id: &Id, lease: Lease, at: Moment) -> Vec<u8> {
        let mut table = self.0.lock();
        let stored = (0..).map(|number| keyspace::entry(&id.line, lease.id(), number));
        let stored = stored.into_iter().find(|name| !table.names.contains(name)).unwrap_or_default();
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
        };
        table.insert(id.clone(), mine);
        stored
    }

    /// Notes an entry that was read.
    pub(super) fn adopt(&self, id: &Id, mine: Mine) {
        self.0.lock().insert(id.clone(), mine);
    }

    pub(super) fn change(&self, id: &Id, change: impl FnOnce(&mut Mine)) {
        if let Some(mine) = self.0.lock().entries.get_mut(id) {
            change(mine);
        }
    }

    pub(super) fn remove(&self, id: &Id) -> Option<Mine> {
        self.0.lock().remove(id)
    }

    /// Returns whether an entry is bound to a lease, or may be.
    pub(super) fn uses(&self, lease: i64) -> bool {
        let table = self.0.lock();
        table.entries.values().any(|mine| mine.lease.id() == lease || mine.maybe.contains(&lease))
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

    /// Returns the entries under a lease that wait and for which no waiter has asked for so long, at most `limit`. They are
    /// marked as uncertain: a waiter that asks now writes its entry before it relies on it.
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
            (id.clone(), mine.clone())
        };
        unasked.map(doubt).collect()
    }

    /// Forgets an entry that was deleted, unless it was written since `modified`.
    pub(super) fn remove_unwritten(&self, id: &Id, modified: i64) {
        let mut table = self.0.lock();
        if table.entries.get(id).is_some_and(|mine| mine.modified == modified && !mine.holds) {
            table.remove(id);
        }
    }

    /// Returns the entries with these stored keys.
    pub(super) fn named(&self, names: &[Vec<u8>]) -> Vec<(Id, Mine)> {
        let names: HashSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let table = self.0.lock();
        let named = table.entries.iter().filter(|(_, mine)| names.contains(&mine.stored[..]));
        named.map(|(id, mine)| (id.clone(), mine.clone())).collect()
    }
}

impl Table {
    fn insert(&mut self, id: Id, mine: Mine) {
        self.remove(&id);
        self.names.insert(mine.stored.clone());
        self.entries.insert(id, mine);
    }

    fn remove(&mut self, id: &Id) -> Option<Mine> {
        let mine = self.entries.remove(id)?;
        self.names.remove(&mine.stored);
        Some(mine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::etcd::store::now;
    use crate::owner::OwnerSource;

    #[test]
    fn a_name_is_used_by_one_entry_at_a_time() {
        let (entries, source) = (Entries::default(), OwnerSource::new().expect("random bytes"));
        let lease = Lease::Shared(Arc::new(Session::new(0xab, Duration::from_secs(5), now())));
        let id = |line: &[u8]| Id { line: line.to_vec(), owner: source.mint() };
        let begin = |id: &Id| String::from_utf8(entries.begin(id, lease.clone(), now())).expect("text");
        let (first, second) = (id(b"k/"), id(b"k/"));
        assert_eq!([begin(&first), begin(&second)], ["k/ab", "k/ab-1"]);
        assert_eq!(begin(&id(b"l/")), "l/ab");
        entries.remove(&first);
        assert_eq!(begin(&id(b"k/")), "k/ab");
    }

    #[test]
    fn a_lost_lease_names_each_holder_once() {
        let (entries, source) = (Entries::default(), OwnerSource::new().expect("random bytes"));
        let lease = |id| Lease::Shared(Arc::new(Session::new(id, Duration::from_secs(5), now())));
        let [holds, waits, other] = [(); 3].map(|()| source.mint());
        for (line, owner, id, is_held) in
            [("a/", holds, 1, true), ("b/", holds, 1, true), ("a/", waits, 1, false), ("c/", other, 2, true)]
        {
            let entry = Id { line: line.as_bytes().to_vec(), owner };
            entries.begin(&entry, lease(id), now());
            entries.change(&entry, |mine| mine.holds = is_held);
        }
        assert!(entries.uses(1) && entries.uses(2));
        assert_eq!(entries.lost(1), [holds]);
        assert!(!entries.uses(1) && entries.uses(2));
    }

    #[test]
    fn a_waiter_that_does_not_ask_is_doubted_until_its_entry_is_deleted() {
        let (entries, source) = (Entries::default(), OwnerSource::new().expect("random bytes"));
        let (begun, long) = (now(), Duration::from_secs(4));
        let lease = Lease::Shared(Arc::new(Session::new(1, Duration::from_secs(2), begun)));
        let [asks, sleeps, holds] = [b"a/", b"b/", b"c/"].map(|line: &[u8; 2]| {
            let id = Id { line: line.to_vec(), owner: source.mint() };
            entries.begin(&id, lease.clone(), begun);
            entries.change(&id, |mine| (mine.created, mine.modified) = (Some(7), 7));
            id
        });
        let later = begun.plus(Duration::from_secs(5));
        entries.change(&asks, |mine| mine.asked = later);
        entries.change(&holds, |mine| mine.holds = true);
        let doubted = entries.doubt_unasked(1, long, later, 16);
        assert!(matches!(&doubted[..], [(id, _)] if *id == sleeps), "the one that sleeps");
        assert!(
            entries.get(&sleeps).is_some_and(|mine| !mine.is_certain()),
            "it is written before it is relied on"
        );
        entries.change(&sleeps, |mine| mine.modified = 8);
        entries.remove_unwritten(&sleeps, 7);
        assert!(entries.get(&sleeps).is_some(), "it was written since");
        entries.remove_unwritten(&sleeps, 8);
        assert!(entries.get(&sleeps).is_none());
        assert!(entries.get(&asks).is_some_and(|mine| mine.is_certain()));
    }
}
