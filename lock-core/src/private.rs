//! What the code written by `#[distributed_lock]` calls. Not a public interface: it changes together with the macro,
//! which is pinned to the same version.

use std::future::Future;
pub use std::time::Duration;

pub use crate::key::KeyBuilder;
pub use crate::strategy;
pub use crate::{Kind, LockHandle, LockManager, OnLost};

use crate::error::{LockError, LockErrorKind, Result};
use crate::guard::LockGuard;
use crate::guard::body;
use crate::guard::{FromLockError, FromSkipped};
use crate::key::Key;
use crate::request::LockRequest;
use crate::strategy::{Backoff, Strategy};

/// The manager of `manager = expr`. A place where a reference, an `Arc`, a `Box` .. becomes a `&LockManager`.
#[doc(hidden)]
pub fn manager(manager: &LockManager) -> Result<LockManager> {
    Ok(manager.clone())
}

/// A request, or the first error on the way to it: written as one chain, whatever fails.
#[doc(hidden)]
#[derive(Debug)]
#[must_use]
pub struct Request {
    request: Result<LockRequest>,
    on_lost: OnLost,
}

/// The setters of [`LockRequest`] of the same names.
macro_rules! forwarded {
    ($($name:ident($value:ident: $type:ty);)*) => {$(
        #[doc = concat!("See [`LockRequest::", stringify!($name), "`].")]
        pub fn $name(self, $value: $type) -> Self {
            self.map(|request| request.$name($value))
        }
    )*};
}

impl Request {
    /// A request for `key` as `kind`. The template is what the key was rendered from; `label` says which function holds
    /// it.
    pub fn new(
        manager: Result<LockManager>,
        key: Result<Key>,
        kind: Kind,
        template: &'static str,
        label: &'static str,
    ) -> Self {
        Self::named(manager.and_then(|manager| Ok(manager.request(key?, kind))), template, label)
    }

    /// A request for all of `keys`, or none.
    pub fn all<const N: usize>(
        manager: Result<LockManager>,
        keys: [Result<Key>; N],
        template: &'static str,
        label: &'static str,
    ) -> Self {
        let request = manager.and_then(|manager| {
            let keys: Vec<Key> = keys.into_iter().collect::<Result<_>>()?;
            Ok(manager.all(keys))
        });
        Self::named(request, template, label)
    }

    fn named(request: Result<LockRequest>, template: &'static str, label: &'static str) -> Self {
        let request = request.map(|request| request.template(template).label(label));
        Self { request, on_lost: OnLost::default() }
    }

    fn map(self, change: impl FnOnce(LockRequest) -> LockRequest) -> Self {
        Self { request: self.request.map(change), ..self }
    }

    forwarded! {
        ttl(ttl: Duration);
        strategy(strategy: impl Strategy);
        wait(limit: Duration);
        max_waiters(max: usize);
        renew(renew: bool);
        renew_every(every: Duration);
        max_hold(max: Duration);
        min_hold(min: Duration);
        label(label: &'static str);
        profile(name: &'static str);
    }

    /// See [`LockRequest::backoff`].
    pub fn backoff(self, base: Duration, max: Duration) -> Self {
        self.map(|request| request.backoff(Backoff::exponential(base, max)))
    }

    /// See [`LockRequest::on_lost`].
    pub fn on_lost(self, on_lost: OnLost) -> Self {
        Self { on_lost, ..self }
    }

    /// See [`LockRequest::run`].
    pub fn run<F: Future>(self, body: F) -> impl Future<Output = Result<F::Output>> {
        let on_lost = self.on_lost;
        body::after(self.asking(), on_lost, Box::pin(body))
    }

    /// By itself, so that the compiler translates it once, not for each body.
    fn asking(self) -> body::Asking {
        Box::pin(async move { self.request?.acquire().await })
    }

    /// Acquires the lock, for a function whose body needs it or that has a fallback.
    ///
    /// # Errors
    ///
    /// No manager, a key that cannot be rendered, and those of [`LockRequest::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::acquire`].
    pub async fn acquire(self) -> Result<Held> {
        Ok(Held { guard: self.request?.acquire().await?, on_lost: self.on_lost })
    }
}

/// A lock that was had, for the body to run under. The body is made after it, so that what was passed to the function
/// can go to the fallback instead.
#[doc(hidden)]
#[derive(Debug)]
#[must_use]
pub struct Held {
    guard: LockGuard,
    on_lost: OnLost,
}

impl Held {
    /// See [`LockGuard::handle`].
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        self.guard.handle()
    }

    /// See [`LockRequest::run`].
    pub fn run<F: Future>(self, body: F) -> impl Future<Output = Result<F::Output>> {
        body::under(self.guard, self.on_lost, Box::pin(body))
    }
}

/// Whether a function with a fallback falls back: others have the key, and the strategy had enough of it. A store that
/// fails is no such case, nor is a request that is wrong, and a loss never comes this way.
#[doc(hidden)]
#[must_use]
pub fn falls_back(error: &LockError) -> bool {
    error.is_contended() || error.kind() == LockErrorKind::Overloaded
}

/// The answer of a fallback as that of the function.
#[doc(hidden)]
pub fn of_fallback<T, A: AnswerOf<T>>(answer: A) -> T {
    answer.answer()
}

/// The one type of answer. A trait, because of a plain mismatch of types the compiler says how to rewrite the attribute,
/// and that would be wrong in another way.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the fallback returns `{Self}`, but the function returns `{T}`",
    label = "this must have the return type of the function",
    note = "a fallback is called with the arguments of the function, and what it returns is what the call returns"
)]
pub trait AnswerOf<T> {
    /// The same.
    fn answer(self) -> T;
}

impl<T> AnswerOf<T> for T {
    fn answer(self) -> T {
        self
    }
}

/// Returns the path of the function in which the type `Here` is declared, with the type of a method: `shop::Shop::pay`.
#[doc(hidden)]
#[must_use]
pub fn path_around<Here>() -> &'static str {
    let path = std::any::type_name::<Here>();
    let (path, _here) = path.rsplit_once("::").unwrap_or((path, ""));
    // The body of an `async fn` is a closure to the compiler.
    path.trim_end_matches("::{{closure}}")
}

/// The answer of a branch that is never taken.
#[doc(hidden)]
#[must_use]
pub fn never<T>() -> T {
    unreachable!("BUG: this branch is never taken")
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_others_who_have_the_key_are_a_reason_to_fall_back() {
        use LockErrorKind::{
            Contended, InvalidKey, InvalidRequest, Lost, NoQuorum, NotInstalled, Overloaded, Reentered,
            ShuttingDown, TimedOut, Unavailable, Unsupported, Upgrade,
        };
        for kind in [Contended, TimedOut, Overloaded] {
            assert!(falls_back(&LockError::new(kind, "")), "{kind:?}");
        }
        assert!(falls_back(&LockError::new(Contended, "").skipped()), "in place of a skip");
        for kind in [
            InvalidKey,
            InvalidRequest,
            Lost,
            NoQuorum,
            NotInstalled,
            Reentered,
            ShuttingDown,
            Unavailable,
            Unsupported,
            Upgrade,
        ] {
            assert!(!falls_back(&LockError::new(kind, "")), "{kind:?}");
        }
    }
}
