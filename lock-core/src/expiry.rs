//! The arithmetic of leases: how long one is certainly valid, and when the store has certainly forgotten it.
//!
//! The two bounds lie on either side of the moment at which the lease ends in the store. A holder stops before it, and
//! whoever waits for the store to forget a grant waits until after it.

use std::time::Duration;

use crate::backend::Placement;
use crate::clock::Moment;

/// The granularity of expiry in the store and of timers in this process.
const GRANULARITY: Duration = Duration::from_millis(2);

/// The difference by which two leases for the same ttl may appear to end apart: the time that a request takes.
const SLACK: Duration = Duration::from_millis(20);

/// Returns what is taken off a lease, so that a loss is reported before anybody else can have the key: the granularity,
/// and for a store in another process 1 % for clocks that run at different speeds ("Distributed Locks with Redis" takes
/// both).
pub(crate) fn drift(placement: Placement, lease: Duration) -> Duration {
    match placement {
        Placement::Embedded => GRANULARITY.min(lease / 4),
        Placement::Remote => lease / 100 + GRANULARITY,
    }
}

/// Returns the part of `lease` for which the grant is certainly held.
pub(crate) fn safe(placement: Placement, lease: Duration) -> Duration {
    lease.saturating_sub(drift(placement, lease))
}

/// Returns when the store has certainly forgotten a lease of `ttl` that was asked for at `now`.
pub(crate) fn forgotten(now: Moment, ttl: Duration) -> Moment {
    now.plus(ttl).plus(ttl / 100 + GRANULARITY)
}

/// Returns whether a lease that the store has until `store_until` is longer than `ttl`, asked for now.
pub(crate) fn outlasts(store_until: Moment, ttl: Duration, now: Moment) -> bool {
    let fits = forgotten(now, ttl).plus(SLACK);
    store_until.remaining(now) > fits.remaining(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_off_a_lease() {
        let ms = Duration::from_millis;
        for (placement, lease, off) in [
            (Placement::Embedded, ms(10_000), ms(2)),
            (Placement::Embedded, ms(4), ms(1)),
            (Placement::Remote, ms(10_000), ms(102)),
            (Placement::Remote, ms(500), ms(7)),
        ] {
            assert_eq!(drift(placement, lease), off, "{placement:?} {lease:?}");
            assert_eq!(safe(placement, lease), lease - off, "{placement:?} {lease:?}");
        }
    }
}
