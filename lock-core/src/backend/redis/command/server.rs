//! The connections to one server, and the deadlines of its calls. The commands are in the other files of this folder.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::redis::error::Failure;
use crate::backend::redis::link::Role;
use crate::backend::redis::link::Session;
use crate::backend::redis::link::Shared;
use crate::backend::redis::primary::Primary;
use crate::backend::remote::PerRuntime;
use crate::error::LockError;

/// A Redis server, its commands, and one connection for each runtime that uses it.
#[derive(Debug)]
pub(crate) struct Server<R: Role = Primary> {
    pub(crate) connections: PerRuntime<Shared<R>>,
}

impl<R: Role> Server<R> {
    /// Creates a server with the connection over which it was checked. Without a connection, dials at once.
    pub(crate) fn new(shared: Arc<Shared<R>>, first: Option<Session<R>>) -> Self {
        Self { connections: PerRuntime::new(shared, first) }
    }

    /// Creates a server without a connection. Dials when the first call needs one.
    pub(crate) fn idle(shared: Arc<Shared<R>>) -> Self {
        Self { connections: PerRuntime::idle(shared) }
    }

    pub(crate) fn shared(&self) -> &Shared<R> {
        self.connections.connector()
    }

    /// Closes all connections permanently.
    pub(crate) fn close(&self) {
        self.connections.close();
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.shared().config.timeout
    }

    pub(crate) fn deadline(&self, lease: Duration) -> Duration {
        self.shared().config.deadline(lease)
    }

    pub(crate) fn error(&self, failure: &Failure) -> LockError {
        failure.to_error(self.shared().address())
    }
}
