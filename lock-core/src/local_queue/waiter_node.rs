//! What one waiter is told by the others of its queue.

use std::fmt;
use std::sync::MutexGuard;
use std::time::Duration;

use tokio::sync::Notify;

use super::handoff::Handoff;
use crate::clock::Moment;
use crate::pending::PendingClaim;
use crate::sync::Mutex;

/// A place in the queue.
pub(super) struct WaiterNode {
    /// The lease that its waiter asks for.
    ttl: Duration,
    news: Mutex<News>,
    /// Keeps one permit, so that nothing is missed between two waits.
    bell: Notify,
}

/// A waiter that is so much later than it meant to be is not polled.
const STALLED: Duration = Duration::from_secs(1);

/// What has happened since the waiter last looked.
pub(super) struct News {
    /// It is the head, and the store may have the key free.
    pub(super) ask: bool,
    /// It is its turn.
    pub(super) handoff: Option<Handoff>,
    /// The place in the store's queue that the head before it has left.
    pub(super) entry: Option<PendingClaim>,
    /// When its waiter meant to look round again, at the latest.
    pub(super) back: Moment,
    /// Its waiter awaits an answer of the store, and hears the rest after it.
    pub(super) asking: bool,
    /// Its waiter was not polled and is not in the queue; it lines up again when it is.
    pub(super) skipped: bool,
    /// Its waiter has left.
    pub(super) gone: bool,
}

impl News {
    /// Whether its waiter should have looked round long ago.
    pub(super) fn is_stalled(&self, now: Moment) -> bool {
        now.since(self.back) >= STALLED
    }

    /// Whether its waiter has a turn to take. One who is leaving passes it on itself.
    pub(super) fn has_handoff(&self) -> bool {
        self.handoff.is_some() && !self.gone
    }

    /// Whether its waiter is to ask, and would have begun to if it were polled.
    pub(super) fn is_to_ask(&self) -> bool {
        self.ask && !self.asking
    }
}

impl WaiterNode {
    pub(super) fn new(ttl: Duration, now: Moment) -> Self {
        let (handoff, entry) = (None, None);
        let news = News { ask: false, handoff, entry, back: now, asking: false, skipped: false, gone: false };
        Self { ttl, news: Mutex::new(news), bell: Notify::new() }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock()
    }

    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }
}

impl fmt::Debug for WaiterNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaiterNode").finish_non_exhaustive()
    }
}
