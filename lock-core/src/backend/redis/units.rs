//! Durations in the unit of the server.

use std::time::Duration;

/// Returns a duration in whole milliseconds, rounded up: the lease in the store must not end before the holder's lease.
pub(crate) fn millis(duration: Duration) -> u64 {
    let rounded = duration.as_nanos().div_ceil(1_000_000).max(1);
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_rounded_up() {
        let table = [(0, 1), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2), (500_000_000, 500)];
        for (nanos, expected) in table {
            assert_eq!(millis(Duration::from_nanos(nanos)), expected, "{nanos} ns");
        }
    }
}
