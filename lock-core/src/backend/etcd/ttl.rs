//! Converts times to whole seconds, in which etcd counts leases.

use std::time::Duration;

/// The shortest ttl if ttls are rounded up. A request to etcd takes some milliseconds, and its time limit is half of
/// the ttl.
pub(super) const SHORTEST_ROUNDED: Duration = Duration::from_millis(100);

/// The unit of a lease.
pub(super) const STEP: Duration = Duration::from_secs(1);

/// The longest lease: 366 days.
pub(super) const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Returns the number of seconds of the shortest lease that is at least as long as `ttl`.
pub(super) fn seconds(ttl: Duration) -> i64 {
    let whole = ttl.as_secs().saturating_add(u64::from(ttl.subsec_nanos() > 0));
    i64::try_from(whole).unwrap_or(i64::MAX)
}

/// Returns the length of the lease that etcd grants for `ttl`.
pub(super) fn rounded_up(ttl: Duration) -> Duration {
    lease(seconds(ttl))
}

/// Returns the length of a lease of this number of seconds.
pub(super) fn lease(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
