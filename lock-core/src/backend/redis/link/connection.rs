//! A connection that is up: what is sent over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Pipeline, PushInfo, PushKind, RedisResult, Value};
use tokio::sync::Notify;

use super::clock::ServerClock;
use super::subscriptions::Subscriptions;
use crate::backend::redis::error::{Failure, Reaction};
use crate::backend::redis::scripts::Scripts;

/// Whether a connection must be given up although it is up.
#[derive(Debug, Default)]
pub(crate) struct Poisoned {
    pub(crate) told: Notify,
    out_of_step: AtomicBool,
}

impl Poisoned {
    /// Inspects a push message before any reply that follows it is delivered.
    ///
    /// A node that gives a slot away ends the subscriptions to its channels in the words of a reply to UNSUBSCRIBE. The
    /// driver takes them for the reply to the oldest pending request, and from then on gives each reply to the request
    /// after its own: a caller whose lock is held could receive the "granted" reply of another request.
    pub(crate) fn look(&self, push: &PushInfo) {
        if push.kind == PushKind::SUnsubscribe {
            self.out_of_step.store(true, Ordering::Release);
            self.told.notify_one();
        }
    }
}

/// A connection that is up.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    connection: MultiplexedConnection,
    pub(crate) scripts: Scripts,
    pub(crate) clock: ServerClock,
    /// What the role keeps for this connection.
    pub(crate) session: S,
    pub(crate) poisoned: Arc<Poisoned>,
    pub(crate) subscriptions: Subscriptions,
}

impl<S> Connection<S> {
    pub(crate) fn new(
        connection: MultiplexedConnection,
        scripts: Scripts,
        clock: ServerClock,
        session: S,
        poisoned: Arc<Poisoned>,
    ) -> Self {
        Self { connection, scripts, clock, session, poisoned, subscriptions: Subscriptions::default() }
    }

    /// A handle of the driver, for what it does itself: subscribing.
    pub(crate) fn multiplexed(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// Sends one command and gives its answer; an error reply is a failure.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        let answer = self.connection.clone().send_packed_command(command).await;
        match self.own(answer)? {
            Value::ServerError(error) => Err(self.noted(Failure::of_reply(&error))),
            value => Ok(value),
        }
    }

    /// Sends several commands at once. An error reply is a value in its place.
    pub(crate) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let answers = self.connection.clone().send_packed_commands(commands, 0, commands.len()).await;
        self.own(answers)
    }

    /// Returns the answer to a request, unless it may be the answer to another one.
    fn own<T>(&self, answer: RedisResult<T>) -> Result<T, Failure> {
        if self.is_out_of_step() {
            return Err(Failure::out_of_step());
        }
        answer.map_err(|error| self.noted(Failure::of(&error)))
    }

    /// Returns whether replies may belong to other requests, so that nothing may be sent over it.
    pub(crate) fn is_out_of_step(&self) -> bool {
        self.poisoned.out_of_step.load(Ordering::Acquire)
    }

    /// Wakes the supervisor for a failure that this connection must not survive.
    pub(crate) fn noted(&self, failure: Failure) -> Failure {
        if failure.reaction == Reaction::Reconnect {
            self.poisoned.told.notify_one();
        }
        failure
    }
}
