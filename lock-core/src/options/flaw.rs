//! Why options cannot be served.

use crate::error::{LockError, LockErrorKind};

/// Why options cannot be served.
#[derive(Debug)]
pub(crate) struct Flaw {
    /// The word of the option that causes the error. A configuration finds its place by this word.
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
