//! Keeps the reason why a key was refused, until the request runs and returns the error.

use std::sync::Arc;

use crate::error::{LockError, LockErrorKind};

/// The reason why a key was refused. A request must be `Clone`, and this value can be cloned, unlike an error.
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
