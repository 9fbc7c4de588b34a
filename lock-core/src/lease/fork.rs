//! What a forked child can do with its copy of a grant: nothing.

use super::lease::Lease;
use crate::error::{LockError, LockErrorKind, Result};

impl Lease {
    /// Refuses a forked child: the lock is its parent's. For the calls of a guard.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.engine.own_process.is_here() {
            return Ok(());
        }
        let what =
            "this process was forked while the lock was held: the lock is its parent's, and nothing was done";
        Err(LockError::new(LockErrorKind::InvalidRequest, what).with_key(&self.claim().key))
    }
}
