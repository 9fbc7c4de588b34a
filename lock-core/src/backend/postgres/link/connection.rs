//! Sends statements over an established connection.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use tokio::task::unconstrained;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Statement};

use crate::backend::postgres::error::{Failure, Reaction};
use crate::backend::postgres::opener::AnyClient;
use crate::backend::remote::join_all;
use crate::error::LockErrorKind;
use crate::sync::Notify;

/// A parameter of a statement, with its type.
pub(crate) type Parameter = (Box<dyn ToSql + Send + Sync>, Type);

/// Returns a text as a parameter.
pub(crate) fn text(value: impl Into<String>) -> Parameter {
    (Box::new(value.into()), Type::TEXT)
}

/// An established connection. All callers of a runtime share it, and the server answers their statements one after
/// another.
pub(crate) struct Connection {
    pub(super) client: AnyClient,
    /// Notified when the supervisor must drop the connection.
    pub(super) poisoned: Notify,
    /// The number of answered statements.
    answered: AtomicU64,
    /// Whether the server has committed a transaction over this connection.
    has_committed: AtomicBool,
    /// The prepared statements. They are set if the session has the settings of the library.
    prepared: OnceLock<Prepared>,
    /// The server process, if it serves only this connection.
    process: OnceLock<ServerProcess>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("process", &self.process).finish_non_exhaustive()
    }
}

/// A server process: its number, and its start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerProcess {
    pub(super) pid: i32,
    pub(super) started: String,
}

#[derive(Debug)]
struct Prepared {
    /// The statements with their texts. There are few of them, so a scan is faster than a map.
    statements: Vec<(String, Statement)>,
    /// Whether only the store uses its sessions. The value is `false` after one session has proved to be shared.
    own: Arc<AtomicBool>,
}

/// A statement in the form that a connection runs.
pub(crate) enum Text {
    Prepared(Statement),
    Plain(String),
}

impl Connection {
    pub(super) fn new(client: AnyClient) -> Self {
        Self {
            client,
            poisoned: Notify::new(),
            answered: AtomicU64::new(0),
            has_committed: AtomicBool::new(false),
            prepared: OnceLock::new(),
            process: OnceLock::new(),
        }
    }

    pub(super) fn set_process(&self, process: ServerProcess) {
        // This cannot fail, because no other caller uses the connection yet.
        let _ = self.process.set(process);
    }

    pub(super) fn process(&self) -> Option<&ServerProcess> {
        self.process.get()
    }

    /// Prepares statements. The session must have the settings of the library, and must not be shared. Without prepared
    /// statements, the server would spend a quarter of the time of a usual call on the text of the statement.
    ///
    /// `own` becomes `false` for all sessions when one of them proves to be shared.
    pub(super) async fn prepare(&self, texts: &[&str], own: Arc<AtomicBool>) -> Result<(), Failure> {
        let answers = join_all(texts.iter().map(|text| self.client.prepare(text))).await;
        let mut statements = Vec::with_capacity(texts.len());
        for (text, answer) in texts.iter().zip(answers) {
            statements.push(((*text).to_owned(), answer.map_err(|error| Failure::from_driver(&error))?));
        }
        // This cannot fail, because no other caller uses the connection yet.
        let _ = self.prepared.set(Prepared { statements, own });
        Ok(())
    }

    /// Returns whether the session has the settings of the library, and is not known to be shared.
    pub(crate) fn is_own(&self) -> bool {
        self.prepared_here().is_some()
    }

    fn prepared_here(&self) -> Option<&Prepared> {
        self.prepared.get().filter(|prepared| prepared.own.load(Ordering::Acquire))
    }

    /// Returns a statement in the form that a call on this connection runs.
    ///
    /// A statement that is not prepared has no name. The statement is sent with the types of its parameters in one
    /// round trip. So a pooler that shares its connections does not have to support prepared statements.
    pub(crate) fn statement(&self, text: &str) -> Text {
        let known =
            self.prepared_here().and_then(|prepared| prepared.statements.iter().find(|(of, _)| of == text));
        known.map_or_else(|| Text::Plain(text.to_owned()), |(_, statement)| Text::Prepared(statement.clone()))
    }

    /// Sends a statement and returns its rows, as a part of a [call](Self::call).
    pub(crate) async fn send(&self, text: &Text, parameters: Vec<Parameter>) -> Result<Vec<Row>, Failure> {
        let answer = match text {
            Text::Prepared(statement) => {
                let values: Vec<&(dyn ToSql + Sync)> =
                    parameters.iter().map(|(value, _)| &**value as &(dyn ToSql + Sync)).collect();
                self.client.query(statement, &values).await
            }
            Text::Plain(text) => {
                let typed: Vec<(&(dyn ToSql + Sync), Type)> = parameters
                    .iter()
                    .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
                    .collect();
                self.client.query_typed(text, &typed).await
            }
        };
        self.answered.fetch_add(1, Ordering::Relaxed);
        // The failure is handled here, because the caller may have stopped waiting.
        answer.map_err(|error| self.noted(Failure::from_driver(&error)))
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn query(
        self: &Arc<Self>,
        statement: &str,
        parameters: Vec<Parameter>,
    ) -> Result<Vec<Row>, Failure> {
        self.query_with(statement, parameters, |_| {}).await
    }

    /// Runs a [query](Self::query). Calls `answered` with the answer, even if the caller has stopped waiting.
    pub(crate) async fn query_with(
        self: &Arc<Self>,
        statement: &str,
        parameters: Vec<Parameter>,
        answered: impl FnOnce(Result<&[Row], &Failure>) + Send + 'static,
    ) -> Result<Vec<Row>, Failure> {
        let (connection, text) = (Arc::clone(self), self.statement(statement));
        let query = async move {
            let answer = connection.send(&text, parameters).await;
            answered(answer.as_deref());
            answer
        };
        self.call(query).await
    }

    /// Runs a call that [sends](Self::send) statements over this connection. After the first poll, the call continues
    /// to its end, even if the caller no longer polls it or has dropped it.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        // The first poll puts the statement into the driver's queue, which is unbounded. Without `unconstrained`,
        // tokio's budget could end this poll earlier.
        let mut call = Box::pin(unconstrained(call));
        match poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
            Poll::Ready(answer) => answer,
            // A separate task reads the rows, because the driver stops reading if one caller does not read its rows.
            // Without the task, a future that is no longer polled would block all other callers.
            Poll::Pending => {
                let running = pin!(tokio::spawn(call));
                running.await.map_err(|_| {
                    Failure::new(LockErrorKind::Unavailable, "the runtime is shutting down").in_doubt()
                })?
            }
        }
    }

    /// Runs statements without parameters and ignores their rows.
    pub(crate) async fn batch(&self, statements: &str) -> Result<(), Failure> {
        self.client.batch_execute(statements).await.map_err(|error| self.noted(Failure::from_driver(&error)))
    }

    pub(crate) fn client(&self) -> &tokio_postgres::Client {
        &self.client
    }

    /// Returns the number of answered statements, including statements whose caller has stopped waiting.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Records that the server has answered a statement whose commit is on its disk.
    pub(crate) fn note_commit(&self) {
        self.has_committed.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_committed(&self) -> bool {
        self.has_committed.load(Ordering::Relaxed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Returns `failure`, after the connection has reacted to it.
    fn noted(&self, failure: Failure) -> Failure {
        match failure.reaction {
            Reaction::Reconnect => self.poisoned.notify_one(),
            Reaction::Unprepare => {
                self.prepared.get().iter().for_each(|prepared| prepared.own.store(false, Ordering::Release));
            }
            Reaction::Report
            | Reaction::Locked
            | Reaction::WithoutSettings
            | Reaction::LeaveAlone
            | Reaction::Abandon => {}
        }
        failure
    }
}
