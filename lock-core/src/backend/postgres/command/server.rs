//! Runs statements on the server, and limits calls to their deadlines.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;

use super::answer::Answer;
use super::stuck::StuckKeys;
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::{Listening, Parameter, Session, Shared};
use crate::backend::remote::PerRuntime;
use crate::clock::{Clock, Moment};
use crate::error::{LockError, Result as LockResult};
use crate::key::Key;

/// A Postgres server, with one connection for each runtime that uses it, and one connection that listens.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) connections: PerRuntime<Shared>,
    pub(super) stuck: Arc<StuckKeys>,
    /// `None` if the store does not listen for notifications.
    pub(crate) listening: Option<Listening>,
}

impl Server {
    /// Creates the server. `first` is the connection over which the server was checked.
    pub(crate) fn new(shared: Arc<Shared>, first: Session, listening: Option<Listening>) -> Self {
        Self { connections: PerRuntime::new(shared, Some(first)), stuck: Arc::default(), listening }
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.connections.connector()
    }

    /// Closes all connections permanently.
    pub(crate) fn close(&self) {
        self.connections.close();
        self.listening.iter().for_each(Listening::close);
    }

    pub(crate) fn error(&self, failure: &Failure) -> LockError {
        failure.to_error(self.shared().address())
    }

    /// Runs a call within its deadline. The call itself needs no timer.
    pub(crate) async fn within<T>(
        &self,
        deadline: Duration,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> LockResult<T> {
        self.connections.within(deadline, pin!(call)).await.map_err(|failure| self.error(&failure))
    }

    /// Runs a call about one key [within](Self::within) its deadline. An error names the key.
    pub(crate) async fn for_key<T>(
        &self,
        key: &Key,
        deadline: Duration,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> LockResult<T> {
        self.within(deadline, call).await.map_err(|error| error.with_key(key))
    }

    /// Runs a statement. Returns its rows, and the moment before it was sent.
    pub(crate) async fn rows(
        &self,
        statement: &str,
        parameters: Vec<Parameter>,
    ) -> Result<(Vec<Row>, Moment), Failure> {
        let live = self.connections.get().await?;
        // The clock is read before the request is sent, because a lease counts from this moment.
        let sent = Clock::Suspend.now();
        Ok((live.query(statement, parameters).await?, sent))
    }

    /// Runs a statement whose answer is one row of the type `answer`.
    pub(super) async fn answer(
        &self,
        statement: &str,
        parameters: Vec<Parameter>,
    ) -> Result<Answer, Failure> {
        let (rows, sent) = self.rows(statement, parameters).await?;
        Answer::read(&rows, sent)
    }
}
