//! Waits for a notification of the store, for a limited time.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{BoxFuture, Placement, WAITER_LEASE};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::owner::Owner;
use crate::pending::PendingClaim;
use crate::sync::Mutex;

/// How long a waiter relies on the notifications of a remote store. The network may lose a notification, so the waiter
/// sends a request this often even without one. Heartbeats are sent three times as often.
const REMOTE_FLOOR: Duration = WAITER_LEASE;

/// How long a waiter relies on the notifications of a store in this process. Such a store loses no notification, so
/// this interval only limits the effect of a bug. It is long, because thousands of waiters must not load the store.
const EMBEDDED_FLOOR: Duration = Duration::from_secs(60);

/// Returns the longest time between two requests of a waiter that the store notifies.
pub(super) fn floor(placement: Placement) -> Duration {
    match placement {
        Placement::Embedded => EMBEDDED_FLOOR,
        Placement::Remote => REMOTE_FLOOR,
    }
}

/// The pending [`Backend::changed`] of a waiting claim.
///
/// A watch is kept over several pauses of a wait, because a new watch may cost the store a request. Otherwise a
/// strategy that pauses for 200 ms would set and remove a watch five times a second. A new watch is made in three
/// cases:
///
/// * The claim has another owner.
/// * The claim has gained or lost an entry in the store's queue, so it waits for another event.
/// * The watch is as old as the floor, so it may have missed its event.
///
/// [`Backend::changed`]: crate::backend::Backend::changed
pub(super) struct Watch {
    owner: Owner,
    /// Whether the claim had an entry in the store's queue.
    queued: bool,
    until: Moment,
    /// This mutex is never locked. It only makes the field `Sync`: the waiter must be `Sync`, and the boxed future is
    /// not.
    changed: Mutex<BoxFuture<'static, ()>>,
}

impl Watch {
    /// Makes a watch. The watch sends no request before its first poll.
    pub(super) fn new(engine: &Arc<Engine>, claim: &PendingClaim) -> Self {
        let until = engine.clock.now().plus(floor(engine.capability.placement));
        let (owner, queued) = (claim.claim.owner, claim.is_queued());
        let (engine, claim) = (Arc::clone(engine), claim.claim.clone());
        let changed: BoxFuture<'static, ()> =
            Box::pin(async move { engine.store.backend.changed_dyn(&claim).await });
        Self { owner, queued, until, changed: Mutex::new(changed) }
    }

    /// Returns whether this watch is still valid for `claim` at `now`.
    pub(super) fn is_of(&self, claim: &PendingClaim, now: Moment) -> bool {
        (self.owner, self.queued) == (claim.claim.owner, claim.is_queued()) && !self.until.is_past(now)
    }

    /// Completes when the store notifies that another request makes sense. This method is cancel safe, but must not be
    /// called again after it has completed.
    pub(super) async fn changed(&mut self) {
        self.changed.get_mut().as_mut().await;
    }
}
