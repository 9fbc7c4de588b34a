//! Keeps the default manager of the process. The default can be set only once.

use std::sync::Arc;

use once_cell::sync::OnceCell;

use super::manager::LockManager;
use crate::error::{LockError, LockErrorKind, Result};
use crate::guard::LockScope;
use crate::hub::Hub;
use crate::observe::templates_of_attributes;

static DEFAULT: OnceCell<Arc<Hub>> = OnceCell::new();

fn install(manager: Arc<Hub>) -> Result<()> {
    match DEFAULT.try_insert(manager) {
        Ok(_) => Ok(()),
        Err((there, _)) => {
            let detail = format!(
                "a manager on the {} store is installed already; a process has one",
                there.engine.capability.store
            );
            Err(LockError::new(LockErrorKind::InvalidRequest, detail))
        }
    }
}

pub(super) fn installed() -> Result<Arc<Hub>> {
    DEFAULT.get().cloned().ok_or_else(|| {
        let advice = "none is installed: call `LockManager::from_env().await?.install()?` at start-up, \
                      or run the task in `manager.scope(..)`";
        LockError::new(LockErrorKind::NotInstalled, advice)
    })
}

impl LockManager {
    /// Returns the manager of the calling task's [`scope`](Self::scope). If the task is in no such scope, returns the
    /// [installed](Self::install) manager.
    ///
    /// # Errors
    /// [`NotInstalled`](LockErrorKind::NotInstalled) if the task has no scope and no manager is installed. The error
    /// text contains the line of code to add.
    pub fn current() -> Result<Self> {
        LockScope::current().manager().cloned().map_or_else(installed, Ok).map(Self::from_hub)
    }

    /// Makes this manager the default of the process.
    ///
    /// With the feature `metrics`, this also [registers](Self::register_template) the templates of all attributes of
    /// the program that do not name a manager.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if a default manager already exists. That manager stays the
    /// default.
    pub fn install(&self) -> Result<()> {
        install(Arc::clone(self.hub()))?;
        templates_of_attributes().for_each(|template| self.register_template(template));
        Ok(())
    }
}
