//! What a forked child can do with its copy of a grant: nothing.

use std::time::Duration;

use super::lease::Lease;
use crate::clock::Moment;
use crate::error::{LockError, LockErrorKind, Result};

/// A grant that is younger than this was not made before a fork.
const SHORTEST_FORK: Duration = Duration::from_micros(20);

impl Lease {
    /// Refuses a forked child at `now`: the lock is its parent's.
    ///
    /// For the calls of a guard. Asking the system for the process id takes a twentieth of a hand-off, and a lease this
    /// young was not made before a fork.
    pub(crate) fn check_process(&self, now: Moment) -> Result<()> {
        if now.since(self.since) < SHORTEST_FORK || self.engine.is_own_process() {
            return Ok(());
        }
        let what =
            "this process was forked while the lock was held: the lock is its parent's, and nothing was done";
        Err(LockError::new(LockErrorKind::InvalidRequest, what).with_key(&self.claim.key))
    }

    /// As [`check_process`](Self::check_process), now.
    pub(crate) fn check_own_process(&self) -> Result<()> {
        self.check_process(self.now())
    }
}
