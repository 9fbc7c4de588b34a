//! Defines [`Flaw`], the reason why options cannot be used.

use crate::error::{LockError, LockErrorKind};

#[derive(Debug)]
pub(crate) struct Flaw {
    /// The word of the option that causes the error. A configuration uses the word to find the place of the mistake.
    pub(crate) option: &'static str,
    pub(crate) error: LockError,
}

impl Flaw {
    pub(super) fn invalid(option: &'static str, detail: String) -> Self {
        Self { option, error: LockError::new(LockErrorKind::InvalidRequest, detail) }
    }

    pub(super) fn unsupported(option: &'static str, detail: String) -> Self {
        Self { option, error: LockError::new(LockErrorKind::Unsupported, detail) }
    }
}
