//! Defines the strategy that fails at once.

use std::borrow::Cow;

use super::{Contention, Decision, Strategy};

/// Fails as soon as the key is found held; see [`fail_fast`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailFast;

/// Fails at once with [`Contended`](crate::LockErrorKind::Contended).
///
/// Use this for requests that need an immediate answer, and for work that a second caller must not start again.
///
/// # Examples
///
/// ```
/// use lock_core::strategy::{Contention, Decision, Strategy, fail_fast};
///
/// assert_eq!(fail_fast().decide(&Contention::new()), Decision::Fail);
/// ```
#[must_use]
pub fn fail_fast() -> FailFast {
    FailFast
}

impl Strategy for FailFast {
    fn decide(&self, _contention: &Contention) -> Decision {
        Decision::Fail
    }

    fn name(&self) -> Cow<'static, str> {
        "fail_fast".into()
    }
}
