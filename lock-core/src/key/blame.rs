//! Adds keys to errors.

use super::Key;
use crate::error::{LockError, LockErrorKind, LossReason};

impl LockError {
    /// Adds the key to the error.
    #[must_use]
    pub fn with_key(self, key: &Key) -> Self {
        self.about(key.text())
    }

    /// Adds the key of a latch to the error.
    pub(crate) fn with_latch(self, key: &Key) -> Self {
        self.of_latch().with_key(key)
    }

    /// Adds the key if the error does not name a key yet.
    pub(crate) fn or_key(self, key: &Key) -> Self {
        if self.key().is_some() { self } else { self.with_key(key) }
    }

    /// Creates the error for a lock that was held and then lost.
    pub(crate) fn lost(key: &Key, reason: LossReason) -> Self {
        Self::new(LockErrorKind::Lost, reason.to_string()).with_loss(reason).with_key(key)
    }
}
