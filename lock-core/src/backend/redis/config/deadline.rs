//! The deadlines of calls.

use std::time::Duration;

use super::Config;

/// The shortest deadline of a release. After its lease there is nothing left to release, but a very short lease leaves
/// no time for a round trip.
const SHORTEST_RELEASE: Duration = Duration::from_millis(50);

impl Config {
    /// Returns the deadline of a call that asks for a lease of `lease`. The holder then has at least half of the lease
    /// left.
    pub(crate) fn deadline(&self, lease: Duration) -> Duration {
        self.timeout.min(lease / 2)
    }

    /// Returns the deadline of the release of a grant with a lease of `lease`.
    pub(crate) fn deadline_of_release(&self, lease: Duration) -> Duration {
        self.timeout.min(lease.max(SHORTEST_RELEASE))
    }
}
