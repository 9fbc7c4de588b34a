//! The role of a server: the hooks that a connection calls for its store.

use std::fmt;
use std::future::{Future, ready};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;

use super::connection::Connection;
use super::session_state::SessionState;
use super::shared::Shared;
use crate::backend::NodeAnswer;
use crate::backend::redis::config::Endpoint;
use crate::backend::redis::error::Failure;
use crate::backend::redis::keyspace::Keyspace;
use crate::clock::Moment;

/// The role of a server in its store: the primary that grants its locks, or one voter of a quorum.
///
/// A connection does not depend on queues, copies or quorums. The connection calls its role instead. The role is a type
/// and not a trait object, so an empty hook costs nothing.
pub(crate) trait Role: fmt::Debug + Send + Sync + Sized + 'static {
    /// The state that the role keeps for each connection.
    type Session: SessionState;
    /// Whether claims wait in a queue on the server. If not, waiters poll.
    const QUEUES: bool;

    /// Returns the set of keys that the server serves.
    fn keyspace(&self) -> Keyspace {
        Keyspace::Whole
    }

    /// Checks whether the server of a new connection can have this role. The server has already passed the general
    /// probe and loaded the scripts.
    ///
    /// # Errors
    /// The server cannot have this role.
    fn admit(
        &self,
        shared: &Shared<Self>,
        greeting: &Greeting<'_>,
    ) -> impl Future<Output = Result<Self::Session, Failure>> + Send;

    /// Confirms with other servers that the server at `place` still has the role: a server that was paused still acts
    /// in its former role. Called once for each connection, after the server has answered.
    ///
    /// # Errors
    /// The other servers name another server, or do not answer.
    fn vouch(&self, _place: &Endpoint) -> impl Future<Output = Result<(), Failure>> + Send {
        ready(Ok(()))
    }

    /// Runs the periodic work of the role. Called after heartbeat number `count` of the connection was answered.
    fn heartbeat(
        &self,
        connection: &Connection<Self::Session>,
        shared: &Shared<Self>,
        count: u32,
    ) -> impl Future<Output = ()> + Send;

    /// Reports that the server has answered a heartbeat.
    fn answered(&self, shared: &Shared<Self>, answer: &NodeAnswer<'_>) {
        shared.listeners().node_answered(answer);
    }

    /// Waits until every write of the connection has the copies that `durability` requires.
    ///
    /// # Errors
    /// Too few copies are confirmed within the part of `deadline` that is reserved for the confirmation.
    fn confirm(
        _connection: &Connection<Self::Session>,
        _deadline: Duration,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        ready(Ok(()))
    }
}

/// The server's first answers over a new connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greeting<'a> {
    pub(crate) connection: &'a MultiplexedConnection,
    /// The answer to `INFO`.
    pub(crate) info: &'a str,
    /// The server's time, in us.
    pub(crate) now: i64,
    /// The two moments between which the server read its time.
    pub(crate) asked: (Moment, Moment),
    /// Whether this is the backend's first connection to the server, so that warnings must be logged.
    pub(crate) is_first: bool,
}
