//! Keeps the reason of a refused key until the request is made.

use std::sync::Arc;

use crate::error::{LockError, LockErrorKind};

/// The reason why a key was refused. It exists because a request can be cloned, and an error cannot.
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
