//! The arithmetic of leases: how long one is certainly valid, and when the store has certainly forgotten it.
//!
//! The two bounds lie on either side of the moment at which the lease ends in the store. A holder stops before it, and
//! code that waits until a grant has expired at the store waits until after it.

use std::time::Duration;

use crate::backend::Placement;
use crate::clock::{Moment, nanos};

/// By how much the ends of two leases for the same ttl may seem to differ: the time that a request takes.
const SLACK: Duration = Duration::from_millis(20);

/// Returns until when a grant is certainly held: the store granted `lease` to a request that was sent at `sent`.
pub(crate) fn held_until(placement: Placement, sent: Moment, lease: Duration) -> Moment {
    // In whole nanoseconds, because every grant passes here and a `Duration` is slow to divide.
    let lease = nanos(lease);
    sent.plus_nanos(lease.saturating_sub(placement.drift_nanos(lease)))
}

/// Returns when the store has certainly forgotten a lease of `ttl` that was requested at `now`.
pub(crate) fn forgotten(now: Moment, ttl: Duration) -> Moment {
    let ttl = nanos(ttl);
    now.plus_nanos(ttl.saturating_add(Placement::Remote.drift_nanos(ttl)))
}

/// Returns whether the store keeps a lease, until `store_until`, for longer than one of `ttl` requested now.
pub(crate) fn outlasts(store_until: Moment, ttl: Duration, now: Moment) -> bool {
    // The rest of a lease that is requested now is the same on both clocks.
    let fits = forgotten(now, ttl).plus(SLACK);
    store_until.nanos_left(now) > fits.nanos_left(now)
}

/// Returns what is left until `end`; `None` when it has passed.
pub(crate) fn left(end: Moment, now: Moment) -> Option<Duration> {
    Some(end.remaining(now)).filter(|left| !left.is_zero())
}
