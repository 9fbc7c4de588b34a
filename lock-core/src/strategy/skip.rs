//! Defines the strategy that skips at once.

use std::borrow::Cow;

use super::{Contention, Decision, Strategy};

/// Skips as soon as the key is found held; see [`skip`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skip;

/// Skips at once. The body does not run, and this is not a failure.
///
/// Use this for jobs that every machine starts at the same time, but that only one machine should run.
///
/// # Examples
///
/// ```
/// use lock_core::strategy::{Contention, Decision, Strategy, skip};
///
/// assert_eq!(skip().decide(&Contention::new()), Decision::Skip);
/// ```
#[must_use]
pub fn skip() -> Skip {
    Skip
}

impl Strategy for Skip {
    fn decide(&self, _contention: &Contention) -> Decision {
        Decision::Skip
    }

    fn name(&self) -> Cow<'static, str> {
        "skip".into()
    }
}
