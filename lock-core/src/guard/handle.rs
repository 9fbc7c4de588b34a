//! A view of a held lock, which does not hold.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::FencingToken;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::{LossReason, Result};
#[cfg(doc)]
use crate::guard::LockGuard;
use crate::lease::Hold;

/// A view of a held lock: its key, its fencing token, whether it is lost. Cheap to clone; does not hold the lock, but
/// keeps its manager's connections open.
#[derive(Clone)]
pub struct LockHandle {
    hold: Arc<Hold>,
}

impl LockHandle {
    pub(super) fn new(hold: Arc<Hold>) -> Self {
        Self { hold }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// The key, with its namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        self.hold.claim.key.as_str()
    }

    /// As [`LockGuard::remaining`]; zero once the lock was released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// As [`LockGuard::is_held`]; `false` once the lock was released.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// As [`LockGuard::is_endangered`].
    #[must_use]
    pub fn is_endangered(&self) -> bool {
        self.hold.is_endangered()
    }

    /// As [`LockGuard::check`].
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost), also when the lock was released.
    pub fn check(&self) -> Result<()> {
        self.hold.check_own_process()?;
        self.hold.check()
    }

    /// As [`LockGuard::lost`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.hold.lost().await
    }

    /// As [`LockGuard::fencing_token`].
    ///
    /// # Errors
    /// As [`LockGuard::fencing_token`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn fencing_token(&self) -> Result<FencingToken> {
        self.hold.check_own_process()?;
        self.hold.fence().await
    }
}

impl fmt::Debug for LockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(&self.hold, f.debug_struct("LockHandle"))
    }
}

/// What a reader of a log can use. Never the owner token, and the key only where the log may show it.
pub(super) fn describe(hold: &Hold, mut text: fmt::DebugStruct<'_, '_>) -> fmt::Result {
    let remaining = hold.remaining();
    text.field("key", &hold.redacted_key().to_string());
    if !hold.claim.more.is_empty() {
        text.field("more_keys", &hold.claim.more.len());
    }
    text.field("kind", &hold.options.kind)
        .field("is_held", &!remaining.is_zero())
        .field("remaining", &remaining)
        .finish()
}
