//! Defines the state of a waiter in a queue: its hand-off, its turn, and whether it is polled.

use std::fmt;
use std::time::Duration;

use tokio::sync::futures::Notified;

use super::handoff::Handoff;
use crate::clock::Moment;
use crate::pending::LeftEntry;
use crate::sync::{Mutex, MutexGuard, Notify};

/// The state of one waiter, shared between the queue and the waiter.
pub(super) struct WaiterNode {
    /// The lease that the waiter requests.
    ttl: Duration,
    /// Notified when the waiter must check its state. A notification between two waits is not lost.
    changed: Notify,
    state: Mutex<NodeState>,
}

/// The time within which a store usually answers.
pub(super) const ANSWER: Duration = Duration::from_secs(2);

/// How late the check of a waiter may be before the waiter counts as not polled.
const STALLED: Duration = Duration::from_secs(1);

/// The state of a waiter, which the queue and the waiter change under a mutex.
pub(super) struct NodeState {
    /// Whether the waiter must send a request: it is the head, and the key may be free at the store.
    pub(super) must_ask: bool,
    /// The grant that the previous holder has handed off.
    pub(super) handoff: Option<Handoff>,
    /// The previous head's entry in the store's queue.
    pub(super) entry: Option<LeftEntry>,
    /// The latest time of the waiter's next check.
    pub(super) check_in_by: Moment,
    /// Whether the waiter awaits an answer of the store. The waiter checks in when the answer arrives.
    pub(super) asking: bool,
    /// Whether the waiter was removed from the queue because it was not polled. The waiter joins again when it is
    /// polled.
    pub(super) skipped: bool,
    /// Whether the waiter has left the queue for good.
    pub(super) gone: bool,
}

impl NodeState {
    /// Returns whether the waiter is so late that it counts as not polled.
    pub(super) fn is_stalled(&self, now: Moment) -> bool {
        now.since(self.check_in_by) >= STALLED
    }

    /// Returns whether the waiter has a hand-off to accept. A waiter that is leaving passes its hand-off on itself.
    pub(super) fn has_handoff(&self) -> bool {
        self.handoff.is_some() && !self.gone
    }

    /// Returns whether the waiter must send a request and has not begun to send it.
    pub(super) fn has_question(&self) -> bool {
        self.must_ask && !self.asking
    }
}

impl WaiterNode {
    pub(super) fn new(ttl: Duration, now: Moment) -> Self {
        let state = NodeState {
            must_ask: false,
            handoff: None,
            entry: None,
            check_in_by: now,
            asking: false,
            skipped: false,
            gone: false,
        };
        Self { ttl, changed: Notify::new(), state: Mutex::new(state) }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn state(&self) -> MutexGuard<'_, NodeState> {
        // Lock order: the lock of the queue is never acquired while this mutex is held.
        self.state.lock()
    }

    /// Notifies the waiter. Do not call this under a lock, because a waker may run code of the application.
    pub(super) fn notify(&self) {
        self.changed.notify_one();
    }

    /// Completes when the waiter is notified. The future is cancel safe, and only one may exist at a time.
    pub(super) fn notified(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

impl fmt::Debug for WaiterNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaiterNode").finish_non_exhaustive()
    }
}
