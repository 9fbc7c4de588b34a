//! Calls a function of the program that chooses the key of a request.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::request::Parts;
use lock_core::LockError;
use lock_core::key::Key;

use super::no_key::NoKey;
use crate::router::{self, Params};

/// The result of a [`LockLayer::key_fn`](crate::LockLayer::key_fn) function for one request.
#[derive(Clone, Debug)]
pub enum KeyChoice {
    /// Lock this key. Use a [`KeyBuilder`](lock_core::key::KeyBuilder), which encodes values that come from the client.
    Lock(Key),
    /// Serve the request without a lock.
    Skip,
    /// Refuse the request with 400 and this text, which must not repeat data of the client.
    Reject(Cow<'static, str>),
}

/// A type that a [`LockLayer::key_fn`](crate::LockLayer::key_fn) function can return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose a key",
    label = "the function must return a `KeyChoice`, a `Key`, or a `Result` of a `Key`",
    note = "encode values that come from outside: `KeyBuilder::new().literal(\"order:\").value(&id).finish()`",
    note = "a future is not awaited: use `key_of` with an extractor of your own, which can await"
)]
pub trait IntoKeyChoice {
    /// Converts the value into the choice.
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

/// The error is itself a choice, so that a function can return early with `?`.
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

/// An invalid key counts as a mistake of the client, and is answered with 400.
impl From<Result<Key, LockError>> for KeyChoice {
    fn from(key: Result<Key, LockError>) -> Self {
        key.map_or_else(
            |error| {
                // The text of the error is left out, because it may contain a key that must not be logged.
                tracing::debug!(why = ?error.kind(), "a request has no key");
                Self::Reject("The key of the lock cannot be made from this request.".into())
            },
            Self::Lock,
        )
    }
}

/// The path parameters of a request, for a function of [`LockLayer::key_with`](crate::LockLayer::key_with).
#[derive(Clone, Copy, Debug)]
pub struct PathParams<'a>(&'a Params);

impl<'a> PathParams<'a> {
    /// Returns the decoded text of the parameter `name`. If two parameters have this name, returns the parameter of the
    /// inner router.
    ///
    /// If the handler parses a number, several texts are the same number, such as `1` and `01`. In this case use
    /// [`parse`](Self::parse).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().filter(|(param, _)| *param == name).last().map(|(_, value)| value)
    }

    /// Returns the parameter `name`, parsed as a `T`. Use the type that the handler parses.
    ///
    /// # Errors
    /// [`KeyChoice::Reject`] if the parameter is missing or not of this type.
    pub fn parse<T: FromStr>(&self, name: &str) -> Result<T, KeyChoice> {
        self.get(name).and_then(|text| text.parse().ok()).ok_or_else(|| {
            KeyChoice::Reject(format!("The path parameter `{name}` is missing or invalid.").into())
        })
    }
}

/// A function that chooses keys, with its name for spans and metrics.
#[derive(Clone)]
pub(crate) struct Chooser {
    name: Box<str>,
    choose: Choose,
}

#[derive(Clone)]
enum Choose {
    Of(Arc<dyn Fn(&Parts) -> KeyChoice + Send + Sync>),
    #[cfg_attr(not(feature = "axum"), allow(dead_code, reason = "no router has parameters"))]
    WithPath(Arc<dyn Fn(&Parts, PathParams<'_>) -> KeyChoice + Send + Sync>),
}

impl Chooser {
    pub(crate) fn new<C: IntoKeyChoice>(
        name: &str,
        choose: impl Fn(&Parts) -> C + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), choose: Choose::Of(Arc::new(move |parts| choose(parts).into_key_choice())) }
    }

    #[cfg(feature = "axum")]
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

    /// Returns the key of this request. `params` are present if the function [needs them](Self::needs_path).
    pub(crate) fn key(&self, parts: &Parts, params: Option<&Params>) -> Result<Key, NoKey> {
        let choice = match (&self.choose, params) {
            (Choose::Of(choose), _) => choose(parts),
            // The function is not called for a request without a route, which gets a 404 from the router.
            (Choose::WithPath(_), Some(_)) if router::route(parts).is_none() => {
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
