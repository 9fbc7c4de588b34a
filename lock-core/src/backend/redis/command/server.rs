//! The connections to one server, and the deadlines of its calls. The commands are in the other files of this folder.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::backend::redis::error::Failure;
use crate::backend::redis::link::Role;
use crate::backend::redis::link::Session;
use crate::backend::redis::link::Shared;
use crate::backend::redis::primary::Primary;
use crate::backend::remote::PerRuntime;
use crate::error::{LockError, LockErrorKind};

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

    /// Returns the failure of a call that received no answer before its deadline. The server may have executed the
    /// call.
    pub(crate) fn elapsed(&self, deadline: Duration) -> Failure {
        match self.connections.failure() {
            // The connection may have been lost since the request was sent, and a new dial may have failed. The error
            // contains the last reason why there is no connection. The request may still have been executed.
            Some(last) => last.in_doubt(),
            None => Failure::no_answer(deadline),
        }
    }

    /// Returns the failure of a call that was not sent before its deadline.
    pub(crate) fn not_sent(&self, deadline: Duration) -> Failure {
        let dialling =
            || Failure::new(LockErrorKind::Unavailable, format!("no connection within {deadline:?}"));
        self.connections.failure().unwrap_or_else(dialling).before_any_request()
    }

    /// Runs a call within its deadline. The calls of every lock pass their future by `pin!(..)`, because an async
    /// function that takes a future by value reserves memory for the future twice.
    pub(crate) async fn within<T>(
        &self,
        deadline: Duration,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        timeout(deadline, call).await.unwrap_or_else(|_| Err(self.elapsed(deadline)))
    }

    pub(crate) fn error(&self, failure: &Failure) -> LockError {
        failure.to_error(self.shared().address())
    }
}
