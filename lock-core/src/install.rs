//! The default manager of the process, set once.

use std::sync::Arc;

use once_cell::sync::OnceCell;

use crate::engine::Engine;
use crate::error::{LockError, LockErrorKind, Result};

static DEFAULT: OnceCell<Arc<Engine>> = OnceCell::new();

pub(crate) fn install(manager: Arc<Engine>) -> Result<()> {
    match DEFAULT.try_insert(manager) {
        Ok(_) => Ok(()),
        Err((there, _)) => {
            let detail = format!(
                "a manager on the {} store is installed already; a process has one",
                there.capability.store
            );
            Err(LockError::new(LockErrorKind::InvalidRequest, detail))
        }
    }
}

pub(crate) fn installed() -> Result<Arc<Engine>> {
    DEFAULT.get().cloned().ok_or_else(|| {
        let advice = "none is installed: call `LockManager::from_env().await?.install()?` at start-up, \
                      or run the task in `manager.scope(..)`";
        LockError::new(LockErrorKind::NotInstalled, advice)
    })
}
