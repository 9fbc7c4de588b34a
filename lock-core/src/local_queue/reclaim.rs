//! Signals to the renewers that a waiter may not have accepted its hand-off.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::futures::Notified;

use crate::sync::Notify;

/// How long a waiter may take to accept a hand-off. After that its future counts as not polled, and the hand-off passes
/// to the next waiter.
pub(crate) const RECLAIM_AFTER: Duration = Duration::from_millis(250);

/// Wakes the renewers if a hand-off may have to be reclaimed. If the signal is already raised, raising it costs one
/// atomic load.
///
/// A timer for each hand-off would cost more than the hand-off. So one flag serves all keys, and the renewer checks all
/// keys in one pass.
#[derive(Debug, Default)]
pub(crate) struct ReclaimSignal {
    raised: AtomicBool,
    changed: Notify,
}

impl ReclaimSignal {
    /// Records a hand-off to a waiter. Call this after the hand-off. The pass that lowers the signal then finds the
    /// hand-off.
    pub(super) fn raise(&self) {
        if !self.raised.load(Ordering::Relaxed) && !self.raised.swap(true, Ordering::SeqCst) {
            self.changed.notify_waiters();
        }
    }

    /// Starts a pass over the queues. A later hand-off raises the signal again.
    pub(super) fn lower(&self) {
        self.raised.store(false, Ordering::SeqCst);
    }

    /// Keeps the signal raised, because a waiter still has time to accept its hand-off.
    pub(super) fn keep(&self) {
        self.raised.store(true, Ordering::SeqCst);
    }

    /// Returns whether a waiter may not have accepted its hand-off.
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
    }

    /// Completes when the signal is raised. Enable this future before you call [`is_raised`](Self::is_raised).
    pub(crate) fn raised(&self) -> Notified<'_> {
        self.changed.notified()
    }
}
