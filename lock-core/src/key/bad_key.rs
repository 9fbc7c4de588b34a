//! Stores the reason why a key was refused until the request runs.

use std::sync::Arc;

use crate::error::{LockError, LockErrorKind};

/// The reason why a key was refused. Unlike an error, it can be cloned, as a request must be.
#[derive(Clone, Debug)]
pub(crate) struct BadKey {
    pub(crate) kind: LockErrorKind,
    text: Arc<str>,
}

impl BadKey {
    pub(crate) fn new(error: &LockError) -> Self {
        Self { kind: error.kind(), text: error.detail().into() }
    }

    pub(crate) fn error(&self) -> LockError {
        LockError::new(self.kind, self.text.to_string())
    }
}
