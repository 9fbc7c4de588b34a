//! A waiter's part of a queue: what the others have given it, and whether it is polled.

use std::fmt;
use std::sync::MutexGuard;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::handoff::Handoff;
use crate::clock::Moment;
use crate::pending::LeftEntry;
use crate::sync::Mutex;

/// A waiter's part of a queue, shared between the queue and the waiter.
pub(super) struct WaiterNode {
    /// The lease that its waiter asks for.
    ttl: Duration,
    /// It waits for a fair lock, in a group.
    grouped: bool,
    state: Mutex<NodeState>,
    /// Keeps one permit, so that nothing is missed between two waits.
    changed: Notify,
}

/// The time within which a store usually answers.
pub(super) const ANSWER: Duration = Duration::from_secs(2);

/// How late a waiter may be before it counts as not polled.
const STALLED: Duration = Duration::from_secs(1);

/// What has happened since the waiter last looked.
pub(super) struct NodeState {
    /// It is the head, and the store may have the key free.
    pub(super) must_ask: bool,
    /// The grant of the holder before it.
    pub(super) handoff: Option<Handoff>,
    /// The entry in the store's queue that the head before it has left.
    pub(super) entry: Option<LeftEntry>,
    /// When its waiter looks again, at the latest.
    pub(super) check_in_by: Moment,
    /// Its waiter awaits an answer of the store, and looks after that.
    pub(super) asking: bool,
    /// Its waiter was not polled and is not in the queue. It joins again when it is.
    pub(super) skipped: bool,
    /// Its waiter has left.
    pub(super) gone: bool,
    /// The number of its group, where it waits in one.
    pub(super) group: Option<u64>,
}

impl NodeState {
    /// Returns whether its waiter should have looked long ago.
    pub(super) fn is_stalled(&self, now: Moment) -> bool {
        now.since(self.check_in_by) >= STALLED
    }

    /// Returns whether its waiter has a hand-off to take. One that is leaving passes it on by itself.
    pub(super) fn has_handoff(&self) -> bool {
        self.handoff.is_some() && !self.gone
    }

    /// Returns whether its waiter must ask, and would have begun to if it were polled.
    pub(super) fn has_question(&self) -> bool {
        self.must_ask && !self.asking
    }
}

impl WaiterNode {
    pub(super) fn new(ttl: Duration, now: Moment) -> Self {
        Self::with(ttl, false, now)
    }

    /// A waiter of a group.
    pub(super) fn grouped(ttl: Duration, now: Moment) -> Self {
        Self::with(ttl, true, now)
    }

    fn with(ttl: Duration, grouped: bool, now: Moment) -> Self {
        let state = NodeState {
            must_ask: false,
            handoff: None,
            entry: None,
            check_in_by: now,
            asking: false,
            skipped: false,
            gone: false,
            group: None,
        };
        Self { ttl, grouped, state: Mutex::new(state), changed: Notify::new() }
    }

    pub(super) fn is_grouped(&self) -> bool {
        self.grouped
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn state(&self) -> MutexGuard<'_, NodeState> {
        // The lock of the queue is taken before this one, never while this one is held.
        self.state.lock()
    }

    pub(super) fn notify(&self) {
        self.changed.notify_one();
    }

    pub(super) fn notified(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

impl fmt::Debug for WaiterNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaiterNode").finish_non_exhaustive()
    }
}
