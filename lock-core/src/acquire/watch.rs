//! Waiting to be notified by the store, and when a waiter stops relying on it.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{BoxFuture, Placement, WAITER_LEASE};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::owner::Owner;
use crate::pending::PendingClaim;
use crate::sync::Mutex;

/// How long a waiter relies on being notified by a store elsewhere. A notification may be lost on the network, so the
/// waiter sends a request this often in any case: a third as often as it would send heartbeats.
const REMOTE_FLOOR: Duration = WAITER_LEASE;

/// The same over a store in this process. It loses no notification, so this interval only bounds the cost of a bug; it
/// is long, so that thousands of waiters cost the store nothing.
const EMBEDDED_FLOOR: Duration = Duration::from_secs(60);

/// The longest time between two requests of a waiter that the store notifies.
pub(super) fn floor(placement: Placement) -> Duration {
    match placement {
        Placement::Embedded => EMBEDDED_FLOOR,
        Placement::Remote => REMOTE_FLOOR,
    }
}

/// The pending [`Backend::changed`] of a waiting claim.
///
/// It is kept over the pauses of a wait, because making it may cost the store a request: a strategy that pauses for 200
/// ms would otherwise set and remove a watch five times a second. It is replaced for another owner; for a claim that
/// has got or lost an entry in the store's queue since, because that claim waits for another event; and when it is as
/// old as the floor, because it may have missed its event.
///
/// [`Backend::changed`]: crate::backend::Backend::changed
pub(super) struct Watch {
    owner: Owner,
    /// Whether the claim had an entry in the store's queue.
    queued: bool,
    until: Moment,
    /// Never locked: a boxed future cannot be shared between threads, and the waiter that awaits this one can be.
    changed: Mutex<BoxFuture<'static, ()>>,
}

impl Watch {
    /// Makes a watch, which sends no request before it is first polled.
    pub(super) fn new(engine: &Arc<Engine>, claim: &PendingClaim) -> Self {
        let until = engine.clock.now().plus(floor(engine.capability.placement));
        let (owner, queued) = (claim.claim.owner, claim.is_queued());
        let (engine, claim) = (Arc::clone(engine), claim.claim.clone());
        let changed: BoxFuture<'static, ()> = Box::pin(async move { engine.store.changed(&claim).await });
        Self { owner, queued, until, changed: Mutex::new(changed) }
    }

    /// Returns whether this watch is still of use to `claim` at `now`.
    pub(super) fn is_of(&self, claim: &PendingClaim, now: Moment) -> bool {
        (self.owner, self.queued) == (claim.claim.owner, claim.is_queued()) && !self.until.is_past(now)
    }

    /// Completes when the store says that another try makes sense. Cancel safe; not to be called again after that.
    pub(super) async fn changed(&mut self) {
        self.changed.get_mut().as_mut().await;
    }
}
