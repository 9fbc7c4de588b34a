//! The role of a server: what a connection does for the store that stands upon it.

use std::fmt;
use std::future::{Future, ready};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;

use super::connection::Connection;
use super::session_state::SessionState;
use super::shared::Shared;
use crate::backend::redis::config::Endpoint;
use crate::backend::redis::error::Failure;
use crate::backend::redis::keyspace::Keyspace;
use crate::backend::redis::scripts::Script;
use crate::clock::Moment;

/// What a server is to its store: the primary that grants its locks, or one voter of a quorum.
///
/// A connection knows nothing of queues, copies or quorums. It asks its role, which is a type and not a trait object: a
/// hook that does nothing costs nothing.
pub(crate) trait Role: fmt::Debug + Send + Sync + Sized + 'static {
    /// What the role keeps for each connection.
    type Session: SessionState;

    /// Returns which keys the server has.
    fn keyspace(&self) -> Keyspace {
        Keyspace::Whole
    }

    /// Returns the text of a script, which a role may replace by one of its own.
    fn text(script: Script) -> &'static str {
        script.text()
    }

    /// Admits the server behind a new connection, which has passed the general probe and loaded its scripts.
    ///
    /// # Errors
    /// The server cannot play the role.
    fn admit(
        &self,
        shared: &Shared<Self>,
        greeting: &Greeting<'_>,
    ) -> impl Future<Output = Result<Self::Session, Failure>> + Send;

    /// Asks others whether the server at `place` still has the role. Called once for each connection, after the server
    /// was reached: one that was stopped for a while takes itself for what it was before.
    ///
    /// # Errors
    /// They name another server, or do not answer.
    fn vouch(&self, _place: &Endpoint) -> impl Future<Output = Result<(), Failure>> + Send {
        ready(Ok(()))
    }

    /// Does what is due with the heartbeat number `count` of a connection, behind an answer to it.
    fn heartbeat(
        &self,
        connection: &Connection<Self::Session>,
        shared: &Shared<Self>,
        count: u32,
    ) -> impl Future<Output = ()> + Send;

    /// Waits until everything that was written over the connection has the copies that it needs.
    ///
    /// # Errors
    /// It does not have them within the part of `deadline` that is meant for that.
    fn confirm(
        _connection: &Connection<Self::Session>,
        _deadline: Duration,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        ready(Ok(()))
    }
}

/// What a server has said over a new connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greeting<'a> {
    pub(crate) connection: &'a MultiplexedConnection,
    /// The answer to `INFO`.
    pub(crate) info: &'a str,
    /// The server's time, in us.
    pub(crate) now: i64,
    /// Between these two moments it was that time.
    pub(crate) asked: (Moment, Moment),
    /// Whether no other connection of this backend has been made to it, so that warnings are due.
    pub(crate) is_first: bool,
}
