//! An established connection, and the requests that are sent over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Pipeline, PushInfo, PushKind, RedisResult, Value};

use super::clock::ServerClock;
use super::subscriptions::Subscriptions;
use crate::backend::redis::error::{Failure, Reaction};
use crate::backend::redis::scripts::Scripts;
use crate::backend::remote::Answers;
use crate::sync::Notify;

/// The reasons to drop a connection that is still established.
#[derive(Debug, Default)]
pub(crate) struct Poisoned {
    /// Wakes the supervisor of the connection.
    pub(crate) told: Notify,
    /// Whether the driver may deliver replies to the wrong requests.
    out_of_step: AtomicBool,
}

impl Poisoned {
    /// Inspects a push message before the driver delivers any later reply.
    ///
    /// When a slot is moved away from a node, the node ends the subscriptions to the slot's channels. The node sends
    /// messages that look like replies to UNSUBSCRIBE. The driver mistakes such a message for the reply to the oldest
    /// pending request. From then on, the driver delivers each reply to the wrong request: a caller could receive the
    /// "granted" reply of another request.
    pub(crate) fn look(&self, push: &PushInfo) {
        if push.kind == PushKind::SUnsubscribe {
            // The flag is set before the driver continues, so that no later reply reaches a caller.
            self.out_of_step.store(true, Ordering::Release);
            // `notify_one` stores a permit, so the wake-up is not lost while the supervisor is busy.
            self.told.notify_one();
        }
    }
}

/// An established connection.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    connection: MultiplexedConnection,
    pub(crate) scripts: Scripts,
    pub(crate) clock: ServerClock,
    /// The state that the role keeps for this connection.
    pub(crate) session: S,
    pub(crate) poisoned: Arc<Poisoned>,
    pub(crate) subscriptions: Subscriptions,
    /// The number of answers over this connection.
    pub(super) answers: Answers,
}

impl<S> Connection<S> {
    pub(crate) fn new(
        connection: MultiplexedConnection,
        scripts: Scripts,
        clock: ServerClock,
        session: S,
        poisoned: Arc<Poisoned>,
    ) -> Self {
        Self {
            connection,
            scripts,
            clock,
            session,
            poisoned,
            subscriptions: Subscriptions::default(),
            answers: Answers::default(),
        }
    }

    /// Returns the driver's own handle, which can subscribe.
    pub(crate) fn multiplexed(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// Sends one command and returns its answer. An error reply is a failure.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        // If the caller is dropped here, the driver still sends its request, so the server may execute it. So before a
        // caller requests a grant, it marks its claim as sent.
        let answer = self.connection.clone().send_packed_command(command).await;
        match self.checked(answer)? {
            Value::ServerError(error) => Err(self.noted(Failure::of_reply(&error))),
            value => Ok(value),
        }
    }

    /// Sends several commands at once and returns their answers. An error reply is returned as a value at its position.
    pub(crate) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        // All commands are in one write, so no command of another caller is sent between them. This is needed for
        // ASKING, which applies only to the next command.
        let answers = self.connection.clone().send_packed_commands(commands, 0, commands.len()).await;
        self.checked(answers)
    }

    /// Returns the answer to a request. Fails if the answer may belong to another request.
    fn checked<T>(&self, answer: RedisResult<T>) -> Result<T, Failure> {
        // The flag is checked after the answer has arrived, because the driver passes on the push message before it
        // delivers the later replies.
        if self.is_out_of_step() {
            return Err(Failure::out_of_step());
        }
        if answer.is_ok() {
            self.answers.note();
        }
        answer.map_err(|error| self.noted(Failure::of_error(&error)))
    }

    /// Returns whether replies may be delivered to wrong requests. Nothing may be sent over such a connection.
    pub(crate) fn is_out_of_step(&self) -> bool {
        self.poisoned.out_of_step.load(Ordering::Acquire)
    }

    /// Returns `failure` unchanged. Wakes the supervisor if the failure requires a new connection.
    pub(crate) fn noted(&self, failure: Failure) -> Failure {
        if failure.reaction == Reaction::Reconnect {
            self.poisoned.told.notify_one();
        }
        failure
    }
}
