//! Defines the holder of a key in another process.

use crate::guard::LockGuard;

/// Holds a key until it is [released](Self::release) or dropped. To the code under test, the holder is another process.
#[derive(Debug)]
#[must_use = "the key is free again when this is dropped"]
pub struct TestHolder(pub(super) LockGuard);

impl TestHolder {
    /// Returns the key, with its namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        self.0.key()
    }

    /// Returns the fencing token of this holder, which is larger than the token of every earlier holder.
    ///
    /// # Panics
    /// Panics when the key was released by force.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn fencing_token(&self) -> crate::FencingToken {
        match self.0.fencing_token().await {
            Ok(token) => token,
            Err(error) => panic!("{error}"),
        }
    }

    /// Frees the key, and returns when it is free.
    ///
    /// # Cancel safety
    /// If the future is dropped, the key is freed in the background.
    pub async fn release(self) {
        // The only possible error is that the key was released by force.
        let _ = self.0.release().await;
    }
}
