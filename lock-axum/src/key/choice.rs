//! Keys that a function of the program chooses.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{MatchedPath, RawPathParams};
use http::request::Parts;
use lock_core::LockError;
use lock_core::key::Key;

use super::no_key::NoKey;

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

/// What a function of [`LockLayer::key_fn`](crate::LockLayer::key_fn) may return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no choice of a key",
    label = "the function must return a `KeyChoice`, a `Key`, or a `Result` of a `Key`",
    note = "encode what comes from outside: `KeyBuilder::new().literal(\"order:\").value(&id).finish()`",
    note = "a future is not awaited: use `key_of` with an extractor of your own, which may"
)]
pub trait IntoKeyChoice {
    /// Makes the choice.
    fn into_key_choice(self) -> KeyChoice;
}

impl IntoKeyChoice for KeyChoice {
    fn into_key_choice(self) -> KeyChoice {
        self
    }
}

impl IntoKeyChoice for Key {
    fn into_key_choice(self) -> KeyChoice {
        KeyChoice::Lock(self)
    }
}

impl IntoKeyChoice for Result<Key, LockError> {
    fn into_key_choice(self) -> KeyChoice {
        self.into()
    }
}

/// An error says what to do with the request without a key: for the `?` of a function.
impl IntoKeyChoice for Result<Key, KeyChoice> {
    fn into_key_choice(self) -> KeyChoice {
        self.map_or_else(|choice| choice, KeyChoice::Lock)
    }
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

/// The path parameters of a request, for a function of [`LockLayer::key_with`](crate::LockLayer::key_with).
#[derive(Clone, Copy, Debug)]
pub struct PathParams<'a>(&'a RawPathParams);

impl<'a> PathParams<'a> {
    /// The text of the parameter `name`, decoded; of two with this name the inner one.
    ///
    /// A handler takes several texts for one number: use [`parse`](Self::parse) where it does.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().filter(|(param, _)| *param == name).last().map(|(_, value)| value)
    }

    /// The parameter `name` as the handler parses it.
    ///
    /// # Errors
    /// [`KeyChoice::Reject`] when there is none, or none of this type.
    pub fn parse<T: FromStr>(&self, name: &str) -> Result<T, KeyChoice> {
        self.get(name).and_then(|text| text.parse().ok()).ok_or_else(|| {
            KeyChoice::Reject(format!("The path parameter `{name}` is missing or invalid.").into())
        })
    }
}

/// The function, under a name for spans and metrics.
#[derive(Clone)]
pub(crate) struct Chooser {
    name: Box<str>,
    choose: Choose,
}

#[derive(Clone)]
enum Choose {
    Of(Arc<dyn Fn(&Parts) -> KeyChoice + Send + Sync>),
    WithPath(Arc<dyn Fn(&Parts, PathParams<'_>) -> KeyChoice + Send + Sync>),
}

impl Chooser {
    pub(crate) fn new<C: IntoKeyChoice>(
        name: &str,
        choose: impl Fn(&Parts) -> C + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), choose: Choose::Of(Arc::new(move |parts| choose(parts).into_key_choice())) }
    }

    pub(crate) fn with_path<C: IntoKeyChoice>(
        name: &str,
        choose: impl Fn(&Parts, PathParams<'_>) -> C + Send + Sync + 'static,
    ) -> Self {
        let choose = move |parts: &Parts, params: PathParams<'_>| choose(parts, params).into_key_choice();
        Self { name: name.into(), choose: Choose::WithPath(Arc::new(choose)) }
    }

    pub(crate) fn needs_path(&self) -> bool {
        matches!(self.choose, Choose::WithPath(_))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The key of this request; `params` are there when it [needs them](Self::needs_path).
    pub(crate) fn key(&self, parts: &Parts, params: Option<&RawPathParams>) -> Result<Key, NoKey> {
        let choice = match (&self.choose, params) {
            (Choose::Of(choose), _) => choose(parts),
            // The 404 of a request without a route stays one.
            (Choose::WithPath(_), Some(_)) if parts.extensions.get::<MatchedPath>().is_none() => {
                return Err(NoKey::NoRoute);
            }
            (Choose::WithPath(choose), Some(params)) => choose(parts, PathParams(params)),
            (Choose::WithPath(_), None) => unreachable!("BUG: the parameters were not read"),
        };
        match choice {
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
