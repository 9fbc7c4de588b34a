//! What a call has read of an entry, for the next one: an attempt for the watch that follows it, a watch for the attempt
//! that it causes. Neither then reads the line again.

use std::time::Duration;

use super::keyspace;
use super::line::{Entry, Line};
use crate::backend::Claim;
use crate::clock::Moment;

/// How many entries a waiter watches one by one at most. Each of these watches is set anew every two seconds: of a larger
/// semaphore that would cost more than the waiters that the one watch of the whole line wakes in vain.
const WATCHED: usize = 16;

/// How many others wait at most before a claim whose turn may come within the first tenth of a second of its watch. In a
/// long line, most of those who join would look in vain.
const SOON: usize = 8;

/// How old the news of a turn may be. An attempt comes right after the watch that has brought it.
pub(super) const FRESH: Duration = Duration::from_millis(100);

/// The keys from the first to the second, or the first alone if the second is empty.
pub(super) type Keys = (Vec<u8>, Vec<u8>);

/// What was read of an entry.
#[derive(Clone, Debug)]
pub(super) enum Look {
    Waits(Blocked),
    /// It holds the key.
    Turn(Turn),
}

/// What a claim waits for.
#[derive(Clone, Debug)]
pub(super) struct Blocked {
    /// It waits for changes of any of these.
    pub(super) by: Vec<Keys>,
    /// Where it is one entry, and the claim may have its turn [soon](SOON): the revision at which that was created. Its
    /// name may be that of a later entry.
    pub(super) soon_after: Option<i64>,
    /// The revision at which that was so.
    pub(super) revision: i64,
    /// The page of its own entry, if it has one, with the lease.
    pub(super) own: Option<(Vec<u8>, i64)>,
    /// A time before the request that has read it.
    pub(super) read_at: Moment,
}

/// An entry whose turn has come.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) entry: Entry,
    /// How many entries wait behind the holders.
    pub(super) waiting: usize,
    /// The revision at which it was read.
    pub(super) revision: i64,
    /// A time before the request that has read it.
    pub(super) read_at: Moment,
}

impl Turn {
    /// Returns the turn of the entry at a place, if it holds the key.
    pub(super) fn of(line: &Line, place: usize, read_at: Moment) -> Option<Self> {
        let entry = line.holder(place)?.clone();
        let waiting = line.entries.len() - line.holding();
        Some(Self { entry, waiting, revision: line.revision, read_at })
    }
}

impl Blocked {
    /// Says what a claim waits for, whose entry is at `place` if it has one; `None` where another attempt makes sense.
    pub(super) fn of(line: &Line, place: Option<usize>, claim: &Claim, read_at: Moment) -> Option<Self> {
        let by = blockers(line, place, claim)?;
        let at = place.unwrap_or(line.entries.len());
        let before = line.blockers(at, claim.mode).first();
        let is_soon = by.len() == 1 && by[0].1.is_empty() && at <= line.holding() + SOON;
        let soon_after = before.filter(|_| is_soon).map(|before| before.created);
        let own = place.filter(|_| claim.more.is_empty()).map(|place| &line.entries[place]);
        let own = own.map(|entry| (entry.page.clone(), entry.lease));
        Some(Self { by, soon_after, revision: line.revision, own, read_at })
    }
}

fn blockers(line: &Line, place: Option<usize>, claim: &Claim) -> Option<Vec<Keys>> {
    let at = place.unwrap_or(line.entries.len());
    // An entry that stands in line waits also for a kind that it cannot be beside.
    let refused = place.is_none() && line.conflict(claim.mode).is_some();
    if line.is_served(at, claim.mode) || refused {
        return None;
    }
    let blockers = line.blockers(at, claim.mode);
    if blockers.is_empty() || blockers.len() > WATCHED {
        return Some(vec![keyspace::line(&claim.key)]);
    }
    Some(blockers.iter().map(|entry| (entry.stored.clone(), Vec::new())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Mode;
    use crate::backend::etcd::line;
    use crate::backend::etcd::proto::{KeyValue, RangeResponse};
    use crate::key::Key;
    use crate::owner::{Identity, OwnerRecord, OwnerSource};

    /// Says what the last of `length` claims waits for, if it waits. All are in this mode.
    fn last_of(length: i64, mode: Mode) -> Option<Blocked> {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let record = OwnerRecord::new(Identity::of_this_process("").into(), None);
        let mut claim = Claim::new(Key::new("k").expect("a key"), owner, Duration::from_secs(5), record);
        claim.mode = mode;
        let kv = |at: i64| KeyValue {
            key: at.to_be_bytes().to_vec(),
            value: line::value(&claim, claim.mode, false),
            create_revision: at,
            ..KeyValue::default()
        };
        let kvs: Vec<KeyValue> = (0..length).map(kv).collect();
        let line = Line::new(RangeResponse { kvs, ..RangeResponse::default() }, length);
        Blocked::of(&line, line.entries.len().checked_sub(1), &claim, crate::backend::etcd::store::now())
    }

    fn watches(of: u32, length: i64) -> Option<Vec<Keys>> {
        last_of(length, Mode::Permit { of }).map(|blocked| blocked.by)
    }

    #[test]
    fn who_may_have_its_turn_soon_looks_at_the_one_before_it() {
        for (length, mode, expected) in [
            (2, Mode::Exclusive, Some(0)),
            (10, Mode::Exclusive, Some(8)),
            (11, Mode::Exclusive, None),
            (2, Mode::Permit { of: 1 }, Some(0)),
            (3, Mode::Permit { of: 2 }, None),
            (40, Mode::Permit { of: 17 }, None),
        ] {
            let blocked = last_of(length, mode).expect("it waits");
            assert_eq!(blocked.soon_after, expected, "{length} {mode:?}");
        }
    }

    #[test]
    fn a_waiter_of_a_large_semaphore_watches_the_whole_line() {
        let each = |places: std::ops::Range<i64>| {
            places.map(|at| (at.to_be_bytes().to_vec(), Vec::new())).collect::<Vec<Keys>>()
        };
        assert_eq!(watches(3, 3), None);
        assert_eq!(watches(3, 4), Some(each(0..3)));
        assert_eq!(watches(3, 40), Some(each(36..39)));
        assert_eq!(watches(16, 40), Some(each(23..39)));
        assert_eq!(watches(17, 17), None);
        assert_eq!(watches(17, 40), Some(vec![keyspace::line(&Key::new("k").expect("a key"))]));
    }
}
