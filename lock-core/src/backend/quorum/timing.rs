//! How long a quorum waits, and what is left of a lease after that. Pure.

use std::time::Duration;

/// How many times an attempt that waits for every node in vain fits into its lease. Small against the ttl, as the
/// algorithm asks: one that has waited so long has nine tenths of the lease left.
const SHARE_OF_TTL: u32 = 10;
/// A renewal has its turn at a third of the lease. A sixth leaves time for two more before the lease is over.
const RENEWAL_SHARE: u32 = 6;
/// Below this an ordinary hiccup of the network would count as a failure.
const SHORTEST: Duration = Duration::from_millis(10);
/// A release has nobody's lease to fit into.
const SHORTEST_RELEASE: Duration = Duration::from_millis(50);

/// The longest that a node is waited for, unless the quorum is told otherwise: a node that takes longer is no help to
/// anybody, however long the lease.
pub(super) const AT_MOST: Duration = Duration::from_secs(1);

/// The shortest lease: ten times the shortest time that a node is waited for.
pub(super) const MIN_TTL: Duration = Duration::from_millis(100);

/// How long an attempt waits for a node.
pub(super) fn attempt(ttl: Duration, at_most: Duration) -> Duration {
    (ttl / SHARE_OF_TTL).max(SHORTEST).min(at_most).min(ttl / 4)
}

/// How long a renewal of this lease waits for a node.
pub(super) fn renewal(ttl: Duration, at_most: Duration) -> Duration {
    (ttl / RENEWAL_SHARE).max(SHORTEST).min(at_most).min(ttl / 4)
}

/// How long a release waits for a node.
pub(super) fn release(ttl: Duration, at_most: Duration) -> Duration {
    (ttl / SHARE_OF_TTL).max(SHORTEST_RELEASE).min(at_most)
}

/// What is left of a lease that counts from before the first request: the *validity* of the algorithm.
pub(super) fn validity(lease: Duration, drift: Duration, elapsed: Duration) -> Duration {
    lease.saturating_sub(drift).saturating_sub(elapsed)
}

/// Whether so little is left that the grant goes back.
///
/// The nodes are waited for a tenth of the lease at most, so less than half is left only where this process stood still
/// meanwhile, or the nodes take longer than the ttl allows. The holder would begin with its first renewal overdue and no
/// time for another; it is better off with a new attempt.
pub(super) fn is_too_little(validity: Duration, lease: Duration) -> bool {
    validity < lease / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn how_long_a_node_is_waited_for() {
        // ttl, at most; attempt, renewal, release.
        let table = [
            ((ms(100), AT_MOST), (ms(10), ms(100) / 6, ms(50))),
            ((ms(500), AT_MOST), (ms(50), ms(500) / 6, ms(50))),
            ((ms(3_000), AT_MOST), (ms(300), ms(500), ms(300))),
            ((ms(10_000), AT_MOST), (ms(1_000), ms(1_000), ms(1_000))),
            ((ms(86_400_000), AT_MOST), (ms(1_000), ms(1_000), ms(1_000))),
            ((ms(10_000), ms(20)), (ms(20), ms(20), ms(20))),
            // Shorter than is allowed, but never a hang.
            ((ms(20), AT_MOST), (ms(5), ms(5), ms(50))),
        ];
        for ((ttl, most), expected) in table {
            let waits = (attempt(ttl, most), renewal(ttl, most), release(ttl, most));
            assert_eq!(waits, expected, "{ttl:?}, at most {most:?}");
        }
    }

    #[test]
    fn what_is_left() {
        // Lease, drift, elapsed; left, too little.
        let table = [
            ((1_000, 12, 100), (888, false)),
            ((1_000, 12, 488), (500, false)),
            ((1_000, 12, 489), (499, true)),
            ((1_000, 12, 5_000), (0, true)),
            ((100, 3, 10), (87, false)),
        ];
        for ((lease, drift, elapsed), (left, too_little)) in table {
            let validity = validity(ms(lease), ms(drift), ms(elapsed));
            assert_eq!((validity, is_too_little(validity, ms(lease))), (ms(left), too_little));
        }
    }

    proptest! {
        /// Two waits, as an attempt with its fencing token needs, leave more than half of every lease that is allowed.
        #[test]
        fn a_grant_in_time_is_worth_having(ttl in 100_u64..100_000_000, most in 1_u64..5_000) {
            let (ttl, most) = (ms(ttl), ms(most));
            let wait = attempt(ttl, most);
            prop_assert!(wait > Duration::ZERO && wait <= most && renewal(ttl, most) * 2 <= ttl);
            let drift = ttl / 100 + ms(2);
            prop_assert!(!is_too_little(validity(ttl, drift, wait * 2), ttl));
        }
    }
}
