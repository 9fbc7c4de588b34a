//! What the code written by `#[distributed_lock]` calls. Not a public interface: it changes together with the macro,
//! which is pinned to the same version.

pub use std::time::Duration;

pub use crate::key::KeyBuilder;
pub use crate::strategy;
pub use crate::{Kind, LockHandle, LockManager, LockRequest, OnLost};

use crate::error::{LockError, Result};
use crate::key::Key;
use crate::outcome::{FromLockError, FromSkipped};
use crate::strategy::Strategy;

/// The manager of `manager = expr`. A place where a reference, an `Arc`, a `Box` .. becomes a `&LockManager`.
#[doc(hidden)]
pub fn manager(manager: &LockManager) -> Result<LockManager> {
    Ok(manager.clone())
}

/// A request, or the first error on the way to it: written as one chain, whatever fails.
#[doc(hidden)]
#[derive(Debug)]
#[must_use]
pub struct Request(Result<LockRequest>);

impl Request {
    /// A request for `key` as `kind`; `label` says which function holds it.
    pub fn new(manager: Result<LockManager>, key: Result<Key>, kind: Kind, label: &'static str) -> Self {
        Self(manager.and_then(|manager| Ok(manager.request(key?, kind).label(label))))
    }

    /// A request for all of `keys`, or none.
    pub fn all<const N: usize>(
        manager: Result<LockManager>,
        keys: [Result<Key>; N],
        label: &'static str,
    ) -> Self {
        Self(manager.and_then(|manager| {
            let keys: Vec<Key> = keys.into_iter().collect::<Result<_>>()?;
            Ok(manager.all(keys).label(label))
        }))
    }

    fn map(self, change: impl FnOnce(LockRequest) -> LockRequest) -> Self {
        Self(self.0.map(change))
    }

    /// See [`LockRequest::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.map(|request| request.ttl(ttl))
    }

    /// See [`LockRequest::strategy`].
    pub fn strategy(self, strategy: impl Strategy) -> Self {
        self.map(|request| request.strategy(strategy))
    }

    /// See [`LockRequest::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        self.map(|request| request.wait(wait))
    }

    /// See [`LockRequest::max_waiters`].
    pub fn max_waiters(self, max: usize) -> Self {
        self.map(|request| request.max_waiters(max))
    }

    /// See [`LockRequest::max_hold`].
    pub fn max_hold(self, max: Duration) -> Self {
        self.map(|request| request.max_hold(max))
    }

    /// See [`LockRequest::min_hold`].
    pub fn min_hold(self, min: Duration) -> Self {
        self.map(|request| request.min_hold(min))
    }

    /// See [`LockRequest::label`].
    pub fn label(self, label: &'static str) -> Self {
        self.map(|request| request.label(label))
    }

    /// See [`LockRequest::template`].
    pub fn template(self, template: &'static str) -> Self {
        self.map(|request| request.template(template))
    }

    /// See [`LockRequest::profile`].
    pub fn profile(self, name: &'static str) -> Self {
        self.map(|request| request.profile(name))
    }

    /// See [`LockRequest::renew`].
    pub fn renew(self, renew: bool) -> Self {
        self.map(|request| request.renew(renew))
    }

    /// See [`LockRequest::on_lost`].
    pub fn on_lost(self, on_lost: OnLost) -> Self {
        self.map(|request| request.on_lost(on_lost))
    }

    /// The request, or why there is none.
    ///
    /// # Errors
    ///
    /// No manager, or a key that cannot be rendered.
    pub fn build(self) -> Result<LockRequest> {
        self.0
    }
}

/// A look at a parameter, which makes the body take it over as a whole.
#[doc(hidden)]
pub const fn keep<T: ?Sized>(_parameter: &T) {}

/// The answer of a locked function.
#[doc(hidden)]
pub fn outcome<T: FromLockError>(outcome: Result<T>) -> T {
    outcome.unwrap_or_else(T::from_lock_error)
}

/// The answer of a locked function that may be skipped.
#[doc(hidden)]
pub fn outcome_or_skip<T: FromSkipped>(outcome: Result<T>, function: &'static str) -> T {
    outcome.unwrap_or_else(|error: LockError| T::from_skipped(error, function))
}
