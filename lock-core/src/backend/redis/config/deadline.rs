//! Computes the deadlines of calls.

use std::time::Duration;

use super::Config;
use crate::backend::remote::deadline;

impl Config {
    /// Returns the deadline of a call that requests a lease of `lease`.
    pub(crate) fn deadline(&self, lease: Duration) -> Duration {
        deadline::of_call(self.timeout, lease)
    }

    /// Returns the deadline of the release of a grant with a lease of `lease`.
    pub(crate) fn deadline_of_release(&self, lease: Duration) -> Duration {
        deadline::of_release(self.timeout, lease)
    }
}
