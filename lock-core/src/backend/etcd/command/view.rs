//! Computes the state of a claim's entry in its queue, without requests.

use crate::backend::etcd::entries::Mine;
use crate::backend::etcd::line::{Entry, Line, NO_LEASE};
use crate::backend::{Claim, Held};
use crate::clock::Moment;

/// The state of a claim's entry in the queue.
#[derive(Debug)]
pub(super) enum View {
    Gone,
    Holds {
        revision: i64,
        waiting: usize,
    },
    Waits(Held),
    /// Another program has written the entry.
    Foreign(Box<Entry>),
    /// The owner has released the entry, or the entry has another mode than the claim requests.
    Unfit(Held),
}

/// Returns the state of the entry `mine` of a claim whose attempt started at `began`. The queue was read after the
/// creation of the entry.
pub(super) fn view(claim: &Claim, began: Moment, line: &Line, mine: &Mine) -> View {
    let entries = line.queue.entries();
    let Some(place) = entries.iter().position(|entry| entry.stored == mine.stored) else {
        return View::Gone;
    };
    let entry = &entries[place];
    if entry.owner != Some(claim.owner) || entry.lease == NO_LEASE {
        return View::Foreign(Box::new(entry.clone()));
    }
    if entry.kept || entry.mode != claim.mode {
        // The owner has released the key, or the owner is a reader that now requests a write lock. Such a claim would
        // wait for itself.
        return View::Unfit(line.held(claim, None, None));
    }
    match line.queue.holds(place) {
        true => View::Holds { revision: line.revision, waiting: line.waiting() },
        false => View::Waits(line.held(claim, Some(place), Some(began))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::backend::Mode;
    use crate::backend::etcd::entries::{Entries, Id, Lease, Told};
    use crate::backend::etcd::line::value;
    use crate::backend::etcd::proto::{KeyValue, RangeResponse};
    use crate::backend::etcd::session::Session;
    use crate::backend::etcd::session::now;
    use crate::key::Key;
    use crate::owner::{Identity, OwnerRecord, OwnerSource};

    const TTL: Duration = Duration::from_secs(5);

    #[test]
    fn each_state_of_an_entry() {
        let source = OwnerSource::new().expect("random bytes");
        let record = OwnerRecord::new(Identity::of_this_process("").into(), None);
        let claim = Claim::new(Key::new("k").expect("a key"), source.mint(), TTL, record);
        let (entries, id) = (Entries::default(), Id::new(&claim.key, claim.owner));
        let lease = Lease::Shared(Arc::new(Session::new(2, TTL, now())));
        let stored = entries.begin(&id, &lease, Told::Waits, &[], now());
        entries.change(&id, |mine| (mine.created, mine.modified) = (Some(6), 6));
        let known = entries.get(&id).expect("it was noted");
        let kv = |key: &[u8], create_revision, value, lease| KeyValue {
            key: key.to_vec(),
            create_revision,
            mod_revision: create_revision,
            value,
            lease,
        };
        let other = Claim { owner: source.mint(), ..claim.clone() };
        let before = || kv(b"k/1", 5, value(&other, Mode::Exclusive, None, false), 1);
        let mine = |mode, kept, lease| kv(&stored, 6, value(&claim, mode, None, kept), lease);
        let own = || mine(Mode::Exclusive, false, 2);
        for (kvs, revision, expected) in [
            (vec![before()], 9, "Gone"),
            // After a restore from a backup, the revision of the cluster is smaller than that of the entry. The entry
            // is gone. The entry must not be treated as one that is still to be created.
            (vec![before()], 5, "Gone"),
            (vec![before(), own()], 9, "Waits"),
            (vec![own()], 9, "Holds"),
            (vec![kv(&stored, 6, b"x".to_vec(), 2)], 9, "Foreign"),
            (vec![mine(Mode::Exclusive, false, NO_LEASE)], 9, "Foreign"),
            (vec![mine(Mode::Exclusive, true, 2)], 9, "Unfit"),
            (vec![mine(Mode::Shared, false, 2)], 9, "Unfit"),
        ] {
            let line = Line::new(RangeResponse { kvs, ..RangeResponse::default() }, revision);
            let seen = format!("{:?}", view(&claim, now(), &line, &known));
            assert!(seen.starts_with(expected), "{seen} at {revision} instead of {expected}");
        }
    }
}
