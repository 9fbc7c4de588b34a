//! Calculates the bounds of a grant: the times until which the holder and the store regard it as held.

use std::time::Duration;

use crate::engine::Engine;
use crate::expiry;
use crate::local_queue::Bounds;
use crate::options::LeaseOptions;
use crate::pending::Granted;

/// Returns the bounds of a grant from the store, for a claim that requested `ttl`.
pub(super) fn of_grant(
    engine: &Engine,
    options: &LeaseOptions,
    ttl: Duration,
    Granted { grant, arrived }: &Granted,
) -> Bounds {
    let length = if ends_by_itself(engine, options) { grant.lease.min(ttl) } else { grant.lease };
    let store_until = match engine.cleanup.has_session() {
        true => expiry::forgotten(grant.sent, length),
        // A grant from the store's queue may be shorter than the requested `ttl`. But an unanswered heartbeat may have
        // extended it to `ttl`.
        false => expiry::forgotten(*arrived, ttl.max(grant.lease)),
    };
    let deadline = expiry::held_until(engine.capability.placement, grant.sent, length);
    Bounds { deadline, store_until, confirmed: grant.sent }
}

/// Returns whether a lease ends although the store keeps the grant. This is the case for a lease without renewal in a
/// session that is kept alive.
pub(super) fn ends_by_itself(engine: &Engine, options: &LeaseOptions) -> bool {
    engine.cleanup.has_session() && !options.renew
}
