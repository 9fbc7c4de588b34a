//! Computes how long a quorum waits, and how much of a lease is left afterwards. All functions are pure.

use std::time::Duration;

use super::votes::majority;

/// The wait for a node is the lease divided by this number. The algorithm requires a wait that is short compared with
/// the ttl. Nine tenths of the lease are left after this wait.
const SHARE_OF_TTL: u32 = 10;
/// The longest node timeout is the lease divided by this number. An attempt with a fencing token waits twice, and half
/// of the lease must be left.
const LARGEST_SHARE: u32 = 5;
/// The wait of a renewal is the lease divided by this number. A renewal starts after a third of the lease. A wait of a
/// sixth leaves time for two more renewals before the lease ends.
const RENEWAL_SHARE: u32 = 6;
/// The shortest wait. With a shorter wait, an ordinary network delay would count as a failure.
const SHORTEST: Duration = Duration::from_millis(10);
/// The shortest wait of a release. This wait is longer than [`SHORTEST`], because no lease needs to be left after a
/// release.
const SHORTEST_RELEASE: Duration = Duration::from_millis(50);
/// The longest wait for a node after a majority has answered. A fast verdict of the majority is more useful than the
/// answer of one more node.
const STRAGGLER: Duration = Duration::from_millis(50);
/// The longest wait for a majority, however long the lease is.
const AT_MOST: Duration = Duration::from_secs(1);

/// The shortest lease: ten times the shortest wait.
pub(super) const MIN_TTL: Duration = Duration::from_millis(100);

/// How long a caller waits for the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waits {
    /// The wait for each node after a majority has answered.
    pub(super) node: Duration,
    /// The wait for a majority. This wait may be longer: without a majority the call fails anyway, and distant nodes
    /// need more time.
    pub(super) majority: Duration,
}

impl Waits {
    pub(super) const fn equal(limit: Duration) -> Self {
        Self { node: limit, majority: limit }
    }
}

/// The nodes that a caller still waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Each,
    /// A majority of the nodes: when a majority has answered, the caller waits for no further node.
    Majority,
    Nobody,
}

impl Waiting {
    /// Returns whether a missing answer counts as a failure. `answered` is the number of nodes that said yes or no.
    pub(super) const fn is_over(self, answered: usize, nodes: usize) -> bool {
        match self {
            Self::Each => false,
            Self::Majority => answered >= majority(nodes),
            Self::Nobody => true,
        }
    }
}

/// Returns how long an attempt waits for the nodes. `given` is the configured node timeout.
pub(super) fn attempt(ttl: Duration, given: Option<Duration>) -> Waits {
    if let Some(given) = given {
        return Waits::equal(given.min(ttl / LARGEST_SHARE));
    }
    let share = (ttl / SHARE_OF_TTL).max(SHORTEST).min(ttl / 4);
    Waits { node: share.min(STRAGGLER), majority: share.min(AT_MOST) }
}

/// Returns how long a detached call waits for its node. This wait is never shorter than the caller's wait, because a
/// slow answer is not a failure.
pub(super) fn patience(ttl: Duration, given: Option<Duration>) -> Duration {
    // A short node timeout ends only the caller's wait, not the call: a node that answers a little later has not
    // failed.
    attempt(ttl, None).majority.max(attempt(ttl, given).majority)
}

/// Returns how long a renewal of this lease waits for a node. The wait may be long, because a renewal delays no caller.
pub(super) fn renewal(ttl: Duration, given: Option<Duration>) -> Duration {
    (ttl / RENEWAL_SHARE).max(SHORTEST).min(AT_MOST.max(given.unwrap_or(AT_MOST))).min(ttl / 4)
}

pub(super) fn release(ttl: Duration, given: Option<Duration>) -> Waits {
    let majority = (ttl / SHARE_OF_TTL).max(SHORTEST_RELEASE).min(AT_MOST.max(given.unwrap_or(AT_MOST)));
    Waits { node: given.unwrap_or(STRAGGLER).min(majority), majority }
}

/// Returns how much of a lease is left when `elapsed` has passed since a moment before the first request. The algorithm
/// calls this rest the *validity*.
pub(super) fn validity(lease: Duration, drift: Duration, elapsed: Duration) -> Duration {
    lease.saturating_sub(drift).saturating_sub(elapsed)
}

/// Returns whether too little of the lease is left to keep the grant.
///
/// The wait for the nodes is at most a fifth of the lease. So less than half of the lease is left only if this process
/// was paused, or if the nodes take too long for this ttl. The holder would start with an overdue renewal, and would
/// have no time for another renewal. A new attempt is better.
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
    fn how_long_nodes_are_waited_for() {
        let waits = |node, majority| Waits { node, majority };
        let second = Duration::from_secs(1);
        // Columns: (ttl, node timeout), (attempt, renewal, release, detached call).
        let table = [
            ((ms(100), None), (waits(ms(10), ms(10)), ms(100) / 6, waits(ms(50), ms(50)), ms(10))),
            ((ms(500), None), (waits(ms(50), ms(50)), ms(500) / 6, waits(ms(50), ms(50)), ms(50))),
            ((ms(3_000), None), (waits(ms(50), ms(300)), ms(500), waits(ms(50), ms(300)), ms(300))),
            ((ms(10_000), None), (waits(ms(50), second), second, waits(ms(50), second), second)),
            ((ms(86_400_000), None), (waits(ms(50), second), second, waits(ms(50), second), second)),
            // A configured timeout also limits the wait for a majority. It shortens neither renewals nor detached
            // calls.
            ((ms(10_000), Some(ms(5))), (Waits::equal(ms(5)), second, waits(ms(5), second), second)),
            ((ms(10_000), Some(ms(200))), (Waits::equal(ms(200)), second, waits(ms(200), second), second)),
            ((ms(10_000), Some(ms(1_500))), {
                (Waits::equal(ms(1_500)), ms(1_500), waits(second, second), ms(1_500))
            }),
            // The timeout is at most a fifth of the lease.
            (
                (ms(1_000), Some(ms(500))),
                (Waits::equal(ms(200)), ms(1_000) / 6, waits(ms(100), ms(100)), ms(200)),
            ),
            // With a lease below the minimum, every wait still ends.
            ((ms(20), None), (Waits::equal(ms(5)), ms(5), waits(ms(50), ms(50)), ms(5))),
        ];
        for ((ttl, given), expected) in table {
            let found = (attempt(ttl, given), renewal(ttl, given), release(ttl, given), patience(ttl, given));
            assert_eq!(found, expected, "{ttl:?}, {given:?}");
        }
    }

    #[test]
    fn a_silent_node_is_given_up_for_a_majority_only() {
        // Columns: (answered, nodes), over.
        let table = [((0, 3), false), ((1, 3), false), ((2, 3), true), ((2, 5), false), ((3, 5), true)];
        for ((answered, nodes), over) in table {
            assert!(!Waiting::Each.is_over(answered, nodes), "{answered} of {nodes}");
            assert_eq!(Waiting::Majority.is_over(answered, nodes), over, "{answered} of {nodes}");
            assert!(Waiting::Nobody.is_over(answered, nodes), "{answered} of {nodes}");
        }
    }

    #[test]
    fn what_is_left() {
        // Columns: (lease, drift, elapsed), (left, too little).
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
        /// An attempt with a fencing token waits twice. After these two waits, at least half of every allowed lease is
        /// left.
        #[test]
        fn a_grant_in_time_is_worth_having(
            ttl in 100_u64..100_000_000,
            given in prop::option::of(1_u64..5_000),
        ) {
            let (ttl, given) = (ms(ttl), given.map(ms));
            let Waits { node, majority } = attempt(ttl, given);
            prop_assert!(node > Duration::ZERO && node <= majority && majority <= patience(ttl, given));
            prop_assert!(given.is_none_or(|given| majority <= given) && renewal(ttl, given) * 2 <= ttl);
            let drift = ttl / 100 + ms(2);
            prop_assert!(!is_too_little(validity(ttl, drift, majority * 2), ttl));
        }
    }
}
