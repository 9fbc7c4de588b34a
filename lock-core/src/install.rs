//! The default manager of the process, set once.

use once_cell::sync::OnceCell;

use crate::error::{LockError, LockErrorKind, Result};
use crate::manager::LockManager;

static DEFAULT: OnceCell<LockManager> = OnceCell::new();

pub(crate) fn install(manager: LockManager) -> Result<()> {
    match DEFAULT.try_insert(manager) {
        Ok(_) => Ok(()),
        Err((there, _)) => {
            let detail =
                format!("a manager on the {} store is installed already; a process has one", there.store());
            Err(LockError::new(LockErrorKind::InvalidRequest, detail))
        }
    }
}

pub(crate) fn installed() -> Result<LockManager> {
    DEFAULT.get().cloned().ok_or_else(|| {
        let advice = "none is installed: call `LockManager::from_env().await?.install()?` at start-up, \
                      or run the task in `manager.scope(..)`";
        LockError::new(LockErrorKind::NotInstalled, advice)
    })
}
