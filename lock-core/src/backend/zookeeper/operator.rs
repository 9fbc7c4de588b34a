//! An operator that ends sessions, for tests.

use std::sync::{Arc, Weak};

use super::config::Config;
use super::error::failure;
use super::process::Processes;
use crate::error::{LockError, LockErrorKind, Result};
use crate::runtime::current_runtime;

/// A handle that ends sessions at the servers. It does not keep the store alive.
#[derive(Clone, Debug)]
pub struct Operator {
    config: Arc<Config>,
    processes: Weak<Processes>,
}

impl Operator {
    pub(super) fn new(config: Arc<Config>, processes: Weak<Processes>) -> Self {
        Self { config, processes }
    }

    /// Returns the attached processes, one for each manager.
    #[must_use]
    pub fn processes(&self) -> Vec<u128> {
        let all = self.processes.upgrade().map(|all| all.all());
        all.into_iter().flatten().map(|(process, _)| process).collect()
    }

    /// Ends the session of `process` at the servers, before its client notices.
    ///
    /// # Errors
    /// [`Unavailable`](LockErrorKind::Unavailable): the process has no session, or the servers do not answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, it is unknown whether the session has ended.
    pub async fn end_session(&self, process: u128) -> Result<()> {
        current_runtime()?;
        let process = self.processes.upgrade().and_then(|all| all.get(process));
        let Some(session) = process.and_then(|process| process.current()) else {
            return Err(LockError::new(LockErrorKind::Unavailable, "there is no session"));
        };
        let ended = self.config.end_session(session.client()).await;
        ended.map_err(|error| failure(&error).error_of(&self.config))
    }
}
