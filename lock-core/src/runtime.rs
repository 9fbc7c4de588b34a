//! Finds the tokio runtime of a caller.

use tokio::runtime::Handle;

use crate::error::{LockError, LockErrorKind, Result};

/// Returns the runtime of the caller, for a call that locks or connects.
pub(crate) fn current_runtime() -> Result<Handle> {
    Handle::try_current().map_err(|error| {
        let advice = "locks are taken, and stores are connected, inside a tokio runtime: call this from an async fn that \
                      tokio runs";
        LockError::new(LockErrorKind::InvalidRequest, advice).with_source(error)
    })
}
