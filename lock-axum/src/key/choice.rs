//! Keys that a function of the program chooses.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use lock_core::LockError;
use lock_core::key::Key;

use super::source::NoKey;

/// What a function of [`LockLayer::key_fn`](crate::LockLayer::key_fn) says about a request.
#[derive(Clone, Debug)]
pub enum KeyChoice {
    /// Lock this key. Values that come from the client are encoded by [`KeyBuilder`](lock_core::key::KeyBuilder).
    Lock(Key),
    /// Serve the request without a lock.
    Skip,
    /// Refuse the request with 400 and this text, which must not repeat what the client has sent.
    Reject(Cow<'static, str>),
}

impl From<Key> for KeyChoice {
    fn from(key: Key) -> Self {
        Self::Lock(key)
    }
}

/// A key that cannot be one is the client's fault: 400.
impl From<Result<Key, LockError>> for KeyChoice {
    fn from(key: Result<Key, LockError>) -> Self {
        key.map_or_else(
            |error| {
                // Without its text, which may name what is kept out of the log.
                tracing::debug!(why = ?error.kind(), "a request has no key");
                Self::Reject("The key of the lock cannot be made from this request.".into())
            },
            Self::Lock,
        )
    }
}

/// The function, under a name for spans and metrics.
#[derive(Clone)]
pub(crate) struct Chooser {
    name: Box<str>,
    choose: Arc<dyn Fn(&Parts) -> KeyChoice + Send + Sync>,
}

impl Chooser {
    pub(crate) fn new<C: Into<KeyChoice>>(
        name: &str,
        choose: impl Fn(&Parts) -> C + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), choose: Arc::new(move |parts| choose(parts).into()) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn key(&self, parts: &Parts) -> Result<Key, NoKey> {
        match (self.choose)(parts) {
            KeyChoice::Lock(key) => Ok(key),
            KeyChoice::Skip => Err(NoKey::Skip),
            KeyChoice::Reject(detail) => Err(NoKey::Client(detail)),
        }
    }
}

impl fmt::Debug for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chooser").field("name", &self.name).finish_non_exhaustive()
    }
}
