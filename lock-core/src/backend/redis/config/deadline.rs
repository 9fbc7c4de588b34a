//! How long a call may take.

use std::time::Duration;

use super::Config;

/// A release gets at least this: behind its lease there is nothing left to release, but a lease that is very short leaves
/// no time for a round trip.
const SHORTEST_RELEASE: Duration = Duration::from_millis(50);

impl Config {
    /// The deadline of a call that asks for a lease of `lease`: half of it is left then for the one who gets it.
    pub(crate) fn deadline(&self, lease: Duration) -> Duration {
        self.timeout.min(lease / 2)
    }

    /// The deadline of the release of a grant with a lease of `lease`.
    pub(crate) fn deadline_of_release(&self, lease: Duration) -> Duration {
        self.timeout.min(lease.max(SHORTEST_RELEASE))
    }
}
