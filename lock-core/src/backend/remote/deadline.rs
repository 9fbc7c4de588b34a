//! Computes the deadlines of calls.

use std::time::Duration;

/// The shortest deadline of a release. A release may take as long as the lease, because an expired grant needs no
/// release. But a very short lease leaves no time for a round trip.
const SHORTEST_RELEASE: Duration = Duration::from_millis(50);
/// The deadline of a renewal is the lease divided by this number. A renewal is due after a third of the lease. With a
/// deadline of a quarter, there is time for another renewal before the lease is over.
const SHARE_OF_LEASE: u32 = 4;
/// The shortest deadline of a renewal. With a shorter deadline, an ordinary network delay would count as a failure.
const SHORTEST_RENEWAL: Duration = Duration::from_millis(20);

/// The longest `min_hold` that Postgres and Redis accept: 366 days.
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) const LONGEST_KEPT: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Returns the deadline of a call that requests a lease of `lease`. The deadline is at most `timeout`, and at most half
/// of the lease, so that the holder has the other half.
pub(crate) fn of_call(timeout: Duration, lease: Duration) -> Duration {
    timeout.min(lease / 2)
}

/// Returns the deadline of the release of a grant with a lease of `lease`.
pub(crate) fn of_release(timeout: Duration, lease: Duration) -> Duration {
    timeout.min(lease.max(SHORTEST_RELEASE))
}

/// Returns the deadline of a batch of renewals whose shortest lease is `shortest`.
pub(crate) fn of_renewal(timeout: Duration, shortest: Duration) -> Duration {
    (shortest / SHARE_OF_LEASE).max(SHORTEST_RENEWAL).min(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_leaves_time_before_the_lease_is_over() {
        let ms = Duration::from_millis;
        let all = |timeout, lease| [of_call, of_release, of_renewal].map(|of| of(ms(timeout), ms(lease)));
        for (timeout, lease, expected) in [
            (500, 10_000, [500, 500, 500]),
            (500, 600, [300, 500, 150]),
            (500, 40, [20, 50, 20]),
            (10, 40, [10, 10, 10]),
        ] {
            assert_eq!(all(timeout, lease), expected.map(ms), "{timeout} {lease}");
        }
    }
}
