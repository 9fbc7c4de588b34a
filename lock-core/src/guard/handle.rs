//! Defines [`LockHandle`]: a held lock for the code that runs under it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::FencingToken;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::{LossReason, Result};
#[cfg(doc)]
use crate::guard::LockGuard;
use crate::hub::Hub;
use crate::lease::Lease;

/// A held lock for the code that runs under it. The handle shows the key and the fencing token, and whether the lock is
/// lost. It can extend the lease, release the lock early, and make a guard that holds the lock longer. The handle does
/// not hold the lock, but it keeps the connections of its manager open. It is cheap to clone.
#[derive(Clone)]
pub struct LockHandle {
    lease: Arc<Lease>,
    hub: Arc<Hub>,
}

impl LockHandle {
    pub(super) fn new(lease: Arc<Lease>, hub: Arc<Hub>) -> Self {
        Self { lease, hub }
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Returns the key, with its namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        self.lease.claim().key.as_str()
    }

    /// Returns the same as [`LockGuard::remaining`]. The result is zero after the lock was released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// Returns the same as [`LockGuard::is_held`]. The result is `false` after the lock was released.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lease.is_held()
    }

    /// Returns the same as [`LockGuard::is_endangered`].
    #[must_use]
    pub fn is_endangered(&self) -> bool {
        self.lease.is_endangered()
    }

    /// Checks the lock like [`LockGuard::check`].
    ///
    /// # Errors
    /// As [`LockGuard::check`]. Also [`Lost`](LockErrorKind::Lost) if the lock was released.
    pub fn check(&self) -> Result<()> {
        self.lease.check()
    }

    /// Completes like [`LockGuard::lost`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.lease.lost().await
    }

    /// Returns the same as [`LockGuard::fencing_token`].
    ///
    /// # Errors
    /// As [`LockGuard::fencing_token`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn fencing_token(&self) -> Result<FencingToken> {
        self.lease.engine.inside(self.lease.fence()).await
    }
}

impl fmt::Debug for LockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(&self.lease, f.debug_struct("LockHandle"))
    }
}

/// Writes the fields that help a reader of a log. The owner token is never shown. The key is shown only if the log may
/// show it.
pub(super) fn describe(lease: &Lease, mut text: fmt::DebugStruct<'_, '_>) -> fmt::Result {
    let remaining = lease.remaining();
    text.field("key", &lease.redacted_key().to_string());
    if !lease.claim().more.is_empty() {
        text.field("more_keys", &lease.claim().more.len());
    }
    text.field("kind", &lease.options.kind)
        .field("is_held", &!remaining.is_zero())
        .field("remaining", &remaining)
        .finish()
}
