//! Defines how the return value of a locked function reports that the lock was not acquired.
//!
//! `#[distributed_lock]` does not change the return type. So the type must be able to represent an error or, with a
//! skipping strategy, "skipped". Otherwise the compiler reports an error at the type.

use crate::error::{LockError, Unnamed};

/// A return type that can carry a [`LockError`].
///
/// The trait is implemented for `Result<T, E>` with `E: From<LockError>`. Implement it for your own types that can
/// represent a failure, such as a response.
///
/// # Examples
///
/// ```
/// use lock_core::{FromLockError, LockError};
///
/// enum Answer {
///     Done,
///     Busy { retry: bool },
/// }
///
/// impl FromLockError for Answer {
///     fn from_lock_error(error: LockError) -> Self {
///         Self::Busy { retry: error.is_temporary() }
///     }
/// }
/// # let _ = Answer::Done;
/// ```
#[diagnostic::on_unimplemented(
    message = "the return type `{Self}` cannot report that the lock was not acquired",
    label = "this must be a `Result` whose error implements `From<LockError>`",
    note = "return `Result<T, E>` with `E: From<LockError>`; `E` may be `LockError` itself",
    note = "with `strategy = \"skip\"` or `\"retry_or_skip\"`, `()`, `Option<T>`, `Result<(), E>` and \
            `Result<Option<T>, E>` can be returned as well"
)]
pub trait FromLockError: Sized {
    /// Returns the value of a function whose lock was not acquired, or was lost.
    fn from_lock_error(error: LockError) -> Self;
}

impl<T, E: From<LockError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}

/// A return type that can represent "skipped", for a function with a skipping strategy.
///
/// | type | skipped | failed, or lost |
/// | --- | --- | --- |
/// | `()` | `()` | `()`, and one event at ERROR |
/// | `Option<T>` | `None` | `None`, and one event at ERROR |
/// | `Result<(), E>` | `Ok(())` | `Err(E::from(error))` |
/// | `Result<Option<T>, E>` | `Ok(None)` | `Err(E::from(error))` |
///
/// If an outage of the store must reach the caller, return a `Result`.
#[diagnostic::on_unimplemented(
    message = "the return type `{Self}` cannot report that the function was skipped",
    label = "with a skipping strategy this must be `()`, an `Option` or a `Result` of one of them",
    note = "return `()`, `Option<T>`, `Result<(), E>` or `Result<Option<T>, E>` with `E: From<LockError>`"
)]
pub trait FromSkipped: Sized {
    /// Returns the value of `function` if it was skipped ([`LockError::is_skipped`]), did not acquire its lock, or lost
    /// its lock.
    fn from_skipped(error: LockError, function: &'static str) -> Self;
}

impl FromSkipped for () {
    fn from_skipped(error: LockError, function: &'static str) -> Self {
        log_unless_skipped(&error, function);
    }
}

impl<T> FromSkipped for Option<T> {
    fn from_skipped(error: LockError, function: &'static str) -> Self {
        log_unless_skipped(&error, function);
        None
    }
}

impl<T: Skipped, E: From<LockError>> FromSkipped for Result<T, E> {
    fn from_skipped(error: LockError, _function: &'static str) -> Self {
        if error.is_skipped() { Ok(T::skipped()) } else { Err(error.into()) }
    }
}

/// A type that can represent "skipped": `()` and `Option<T>`.
#[diagnostic::on_unimplemented(
    message = "a `Result` of `{Self}` cannot report that the function was skipped",
    label = "with a skipping strategy this must be a `Result<(), E>` or a `Result<Option<T>, E>`",
    note = "return `Result<Option<{Self}>, E>`: skipped is `Ok(None)`"
)]
pub trait Skipped {
    /// Returns the value for "skipped".
    fn skipped() -> Self;
}

impl Skipped for () {
    fn skipped() -> Self {}
}

impl<T> Skipped for Option<T> {
    fn skipped() -> Self {
        None
    }
}

/// Logs a failure that the return type cannot represent.
fn log_unless_skipped(error: &LockError, function: &'static str) {
    if !error.is_skipped() {
        // The event has no key, because keys may be redacted. If they are not, an earlier event of the lock has shown
        // the key.
        tracing::error!(function, error = %Unnamed(error), "the locked function did not run to its end");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LockErrorKind::{Contended, Unavailable};

    fn failed() -> LockError {
        LockError::new(Unavailable, "no answer")
    }

    fn skipped() -> LockError {
        LockError::new(Contended, "").skipped()
    }

    #[test]
    fn a_result_carries_the_error_and_a_skip_without_a_place_is_an_error() {
        let failed: Result<u8, LockError> = FromLockError::from_lock_error(failed());
        assert!(failed.expect_err("failed").is_unavailable());
        let skipped: Result<u8, LockError> = FromLockError::from_lock_error(skipped());
        assert!(skipped.expect_err("skipped").is_skipped());
    }

    #[test]
    fn a_skip_is_no_error_where_the_type_has_a_place_for_it() {
        assert_eq!(Option::<u8>::from_skipped(skipped(), "f"), None);
        <()>::from_skipped(skipped(), "f");
        assert!(matches!(Result::<(), LockError>::from_skipped(skipped(), "f"), Ok(())));
        assert!(matches!(Result::<Option<u8>, LockError>::from_skipped(skipped(), "f"), Ok(None)));
    }

    #[test]
    fn a_failure_is_no_skip() {
        assert!(Result::<(), LockError>::from_skipped(failed(), "f").is_err());
        assert!(Result::<Option<u8>, LockError>::from_skipped(failed(), "f").is_err());
        assert_eq!(Option::<u8>::from_skipped(failed(), "f"), None);
    }
}
