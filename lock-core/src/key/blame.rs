//! Errors that name a key.

use super::Key;
use crate::error::{LockError, LockErrorKind, LossReason};

impl LockError {
    /// Adds the key.
    #[must_use]
    pub fn with_key(self, key: &Key) -> Self {
        self.about(key.text())
    }

    /// Adds the key of a latch.
    pub(crate) fn with_latch(self, key: &Key) -> Self {
        self.of_latch().with_key(key)
    }

    /// Adds the key, unless the error already names one.
    pub(crate) fn or_key(self, key: &Key) -> Self {
        if self.key().is_some() { self } else { self.with_key(key) }
    }

    /// Makes the error of a lock that was held and is lost.
    pub(crate) fn lost(key: &Key, reason: LossReason) -> Self {
        Self::new(LockErrorKind::Lost, reason.to_string()).with_loss(reason).with_key(key)
    }
}
