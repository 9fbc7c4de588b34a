//! What a forked child can do with its copy of a grant: nothing.

use super::lease::Lease;
use crate::clock::Moment;
use crate::error::{LockError, LockErrorKind, Result};

impl Lease {
    /// Refuses a forked child at `now`: the lock is its parent's. For the calls of a guard.
    pub(crate) fn check_process(&self, now: Moment) -> Result<()> {
        if self.engine.is_own_process(now) {
            return Ok(());
        }
        let what =
            "this process was forked while the lock was held: the lock is its parent's, and nothing was done";
        Err(LockError::new(LockErrorKind::InvalidRequest, what).with_key(&self.claim().key))
    }

    /// As [`check_process`](Self::check_process), now.
    pub(crate) fn check_own_process(&self) -> Result<()> {
        self.check_process(self.now())
    }
}
