//! Calculates when a lease is still certainly valid, and when it has certainly expired in the store.
//!
//! The lease expires in the store between these two moments. A holder uses the first moment as its deadline. Code that
//! needs the grant to have expired in the store waits until the second moment.

use std::time::Duration;

use crate::backend::Placement;
use crate::clock::Moment;

/// The tolerance for the comparison of two leases with the same ttl. It allows for the time that a request takes.
const SLACK: Duration = Duration::from_millis(20);

/// Returns the moment until which a grant is certainly held, if the store granted `lease` to a request that was sent at
/// `sent`.
pub(crate) fn held_until(placement: Placement, sent: Moment, lease: Duration) -> Moment {
    sent.plus(lease.saturating_sub(placement.drift(lease)))
}

/// Returns the moment when a lease of `ttl` that is requested at `now` has certainly expired in the store.
pub(crate) fn forgotten(now: Moment, ttl: Duration) -> Moment {
    now.plus(ttl.saturating_add(Placement::Remote.drift(ttl)))
}

/// Returns whether a lease that ends in the store at `store_until` would outlast a lease of `ttl` that is requested
/// now.
pub(crate) fn outlasts(store_until: Moment, ttl: Duration, now: Moment) -> bool {
    // The remaining time of a lease that is requested now is the same on both clocks.
    let fits = forgotten(now, ttl).plus(SLACK);
    store_until.nanos_left(now) > fits.nanos_left(now)
}

/// Returns the time until `end`, or `None` if `end` has passed.
pub(crate) fn left(end: Moment, now: Moment) -> Option<Duration> {
    Some(end.remaining(now)).filter(|left| !left.is_zero())
}
