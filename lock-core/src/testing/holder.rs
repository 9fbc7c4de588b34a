//! Somebody else who holds.

use crate::guard::LockGuard;

/// Another process, as the code under test sees it, that holds a key until this value is
/// [released](Self::release) or dropped.
#[derive(Debug)]
#[must_use = "the key is free again when this is dropped"]
pub struct TestHolder(pub(super) LockGuard);

impl TestHolder {
    /// The key, with its namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        self.0.key()
    }

    /// The fencing token of this holder: larger than that of every earlier one.
    ///
    /// # Panics
    /// When the key was taken away from it by force.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn fencing_token(&self) -> crate::FencingToken {
        match self.0.fencing_token().await {
            Ok(token) => token,
            Err(error) => panic!("{error}"),
        }
    }

    /// Frees the key, and returns once it is free.
    ///
    /// # Cancel safety
    /// Dropping the future frees the key in the background.
    pub async fn release(self) {
        // The only other answer is that the key was taken away from it by force.
        let _ = self.0.release().await;
    }
}
