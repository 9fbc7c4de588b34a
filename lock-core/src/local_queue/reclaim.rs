//! Whether a waiter may have a hand-off that it does not take.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::futures::Notified;

use crate::sync::Notify;

/// How long a waiter may leave a hand-off untaken. Then it goes to the next one: the waiter's future is not polled.
pub(crate) const RECLAIM_AFTER: Duration = Duration::from_millis(250);

/// Wakes the renewers when there is something to reclaim. While it is raised, raising it again costs one load.
///
/// A timer for each hand-off would cost more than the hand-off, so one flag and one pass serve all keys.
#[derive(Debug, Default)]
pub(super) struct ReclaimSignal {
    raised: AtomicBool,
    changed: Notify,
}

impl ReclaimSignal {
    /// Notes a hand-off to a waiter. Call it after the hand-off, so that the pass that lowers the signal finds it.
    pub(super) fn raise(&self) {
        if !self.raised.load(Ordering::Relaxed) && !self.raised.swap(true, Ordering::SeqCst) {
            self.changed.notify_waiters();
        }
    }

    /// Begins a pass. A later hand-off raises the signal again.
    pub(super) fn lower(&self) {
        self.raised.store(false, Ordering::SeqCst);
    }

    /// Keeps the signal raised: a waiter still has time.
    pub(super) fn keep(&self) {
        self.raised.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
    }

    pub(super) fn raised(&self) -> Notified<'_> {
        self.changed.notified()
    }
}
