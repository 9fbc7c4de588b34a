//! Lists the keys with lingering grants, and the times at which these grants end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use super::handoff::Handoff;
use crate::clock::Moment;
use crate::key::Key;
use crate::owner::Owner;
use crate::sync::{Mutex, Notify};

/// A lingering grant.
#[derive(Debug)]
pub(super) struct Lingering {
    pub(super) handoff: Handoff,
    /// When the grant stops lingering: at the end of the linger time, or at the end of the lease if the lease ends
    /// earlier.
    pub(super) until: Moment,
}

/// The keys that may have a lingering grant, and the time of the next check.
#[derive(Debug)]
pub(super) struct LingeringKeys {
    /// The number of lingering grants. While it is zero, no lookup is needed.
    pub(super) count: AtomicUsize,
    /// The keys, each with the time of its next check. An entry is valid only if its time equals the `listed` time of
    /// the key's queue. Lock order: this mutex is never acquired while a queue is locked.
    pub(super) keys: Mutex<BTreeSet<(i64, Key)>>,
    /// When the renewers check next, by the clock that orders their schedules. This is never later than the earliest
    /// end of a lingering grant.
    pub(super) due: AtomicI64,
    pub(super) earlier: Notify,
}

impl Default for LingeringKeys {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            keys: Mutex::default(),
            due: AtomicI64::new(i64::MAX),
            earlier: Notify::new(),
        }
    }
}

impl LingeringKeys {
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Counts a grant that begins to linger. Call this method and `ended` under the lock of the queue.
    pub(super) fn began(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn ended(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// Adds an entry for `key` at `until`, and wakes the renewers if their next check would be too late. Do not call
    /// this while a queue is locked.
    pub(super) fn list(&self, key: &Key, until: i64) {
        self.keys.lock().insert((until, key.clone()));
        if until < self.due.load(Ordering::Acquire) && until < self.due.fetch_min(until, Ordering::AcqRel) {
            self.earlier.notify_waiters();
        }
    }
}

/// Returns the reading of `moment` on the clock that also counts time in suspend. The schedules of the renewers use the
/// same clock.
pub(super) fn instant(moment: Moment) -> i64 {
    moment.parts().1
}

impl Lingering {
    pub(super) fn owner(&self) -> Owner {
        self.handoff.claim().owner
    }
}
