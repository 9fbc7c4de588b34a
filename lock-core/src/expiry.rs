//! Calculates how long a lease is certainly valid, and when the store has certainly forgotten it.
//!
//! The lease ends in the store at a moment between these two bounds. A holder stops before that moment. Code that waits
//! for the expiry of a grant at the store waits until after that moment.

use std::time::Duration;

use crate::backend::Placement;
use crate::clock::{Moment, nanos};

/// The tolerance when the ends of two leases with the same ttl are compared. It is the time that a request takes.
const SLACK: Duration = Duration::from_millis(20);

/// Returns until when a grant is certainly held, if the store granted `lease` to a request that was sent at `sent`.
pub(crate) fn held_until(placement: Placement, sent: Moment, lease: Duration) -> Moment {
    // The calculation uses whole nanoseconds: every grant passes through here, and dividing a `Duration` is slow.
    let lease = nanos(lease);
    sent.plus_nanos(lease.saturating_sub(placement.drift_nanos(lease)))
}

/// Returns when the store has certainly forgotten a lease of `ttl` that was requested at `now`.
pub(crate) fn forgotten(now: Moment, ttl: Duration) -> Moment {
    let ttl = nanos(ttl);
    now.plus_nanos(ttl.saturating_add(Placement::Remote.drift_nanos(ttl)))
}

/// Returns whether the store keeps a lease that ends at `store_until` for longer than a lease of `ttl` that is
/// requested now.
pub(crate) fn outlasts(store_until: Moment, ttl: Duration, now: Moment) -> bool {
    // For a lease that is requested now, the rest is the same on both clocks.
    let fits = forgotten(now, ttl).plus(SLACK);
    store_until.nanos_left(now) > fits.nanos_left(now)
}

/// Returns the time until `end`, or `None` if `end` has passed.
pub(crate) fn left(end: Moment, now: Moment) -> Option<Duration> {
    Some(end.remaining(now)).filter(|left| !left.is_zero())
}
