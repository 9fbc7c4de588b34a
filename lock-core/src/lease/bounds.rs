//! Until when a grant of the store is held.

use std::time::Duration;

use crate::clock::Moment;
use crate::engine::Engine;
use crate::expiry;
use crate::options::LeaseOptions;
use crate::pending::Granted;

/// Until when a grant is held, and how that is known.
pub(super) struct Bounds {
    pub(super) deadline: Moment,
    pub(super) store_until: Moment,
    pub(super) confirmed: Moment,
}

impl Bounds {
    /// The bounds of a grant that the store gave to a claim for `ttl`.
    pub(super) fn of_grant(
        engine: &Engine,
        options: &LeaseOptions,
        ttl: Duration,
        Granted { grant, arrived }: &Granted,
    ) -> Self {
        let length = if ends_by_itself(engine, options) { grant.lease.min(ttl) } else { grant.lease };
        let store_until = match engine.cleanup.has_session() {
            true => expiry::forgotten(grant.sent, length),
            // The claim asked for `ttl`; a grant from the queue is shorter, and a heartbeat without an answer may have
            // made it `ttl`.
            false => expiry::forgotten(*arrived, ttl.max(grant.lease)),
        };
        let deadline = expiry::held_until(engine.capability.placement, grant.sent, length);
        Self { deadline, store_until, confirmed: grant.sent }
    }
}

/// Returns whether a lease ends although the store keeps the grant: it is not renewed, and its session is.
pub(super) fn ends_by_itself(engine: &Engine, options: &LeaseOptions) -> bool {
    engine.cleanup.has_session() && !options.renew
}
