//! Which grants linger, and until when.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use super::handoff::Handoff;
use crate::clock::Moment;
use crate::key::Key;
use crate::owner::Owner;
use crate::sync::{Mutex, Notify};

/// A grant that lingers.
#[derive(Debug)]
pub(super) struct Lingering {
    pub(super) handoff: Handoff,
    /// Its end: the end of the linger, or of the lease if that is earlier.
    pub(super) until: Moment,
}

/// Which keys may have a grant that lingers, and when the first of them ends.
#[derive(Debug)]
pub(super) struct LingeringKeys {
    /// How many grants linger. While it is zero, no look-up is needed.
    pub(super) count: AtomicUsize,
    /// The keys, by the time at which each must be checked. An entry is valid if its time is the `listed` time of the
    /// key's queue. This is locked before the queues, never while one is locked.
    pub(super) keys: Mutex<BTreeSet<(i64, Key)>>,
    /// When the renewers check next, by the clock that orders their schedules. Never later than the first end.
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

    /// Counts a grant that begins to linger. Call this and `ended` under the lock of the queue.
    pub(super) fn began(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn ended(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// Adds the entry of `key` for `until`, and wakes the renewers if they would check too late. Call it without a
    /// lock.
    pub(super) fn list(&self, key: &Key, until: i64) {
        self.keys.lock().insert((until, key.clone()));
        if until < self.due.load(Ordering::Acquire) && until < self.due.fetch_min(until, Ordering::AcqRel) {
            self.earlier.notify_waiters();
        }
    }
}

/// The times are by the clock that includes suspend, as in the schedules of the renewers.
pub(super) fn instant(moment: Moment) -> i64 {
    moment.parts().1
}

impl Lingering {
    pub(super) fn owner(&self) -> Owner {
        self.handoff.claim().owner
    }
}
