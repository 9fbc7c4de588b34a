//! An established connection, and the requests that are sent over it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Pipeline, PushInfo, PushKind, RedisResult, Value};
use tokio::task::unconstrained;

use super::clock::ServerClock;
use super::subscriptions::Subscriptions;
use crate::backend::redis::error::{Failure, Reaction};
use crate::backend::redis::scripts::Scripts;
use crate::backend::remote::Answers;
use crate::sync::Notify;

/// The reasons to give up a connection that is still established.
#[derive(Debug, Default)]
pub(crate) struct Poisoned {
    /// Wakes the supervisor.
    pub(crate) told: Notify,
    /// Whether replies may belong to other requests.
    out_of_step: AtomicBool,
}

impl Poisoned {
    /// Inspects a push message before any reply that follows it is delivered.
    ///
    /// A node that gives a slot away ends the subscriptions to its channels with messages that look like replies to
    /// UNSUBSCRIBE. The driver takes such a message for the reply to the oldest pending request, and delivers each
    /// later reply to the request after its own: a caller whose lock is held could receive the "granted" reply of
    /// another request.
    pub(crate) fn look(&self, push: &PushInfo) {
        if push.kind == PushKind::SUnsubscribe {
            // This is set before the supervisor is woken, and before the driver continues: no later reply may reach its
            // caller.
            self.out_of_step.store(true, Ordering::Release);
            // `notify_one` keeps a permit, so the wake-up is not lost while the supervisor waits for a heartbeat.
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
    /// The answers of the server so far.
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

    /// Returns the driver's own handle, which subscribes.
    pub(crate) fn multiplexed(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// Sends one command and returns its answer. An error reply is a failure.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        // A caller that is dropped here leaves its request to the driver, so the server may still execute it. A caller
        // that asks for a grant has marked its claim as sent before.
        let answer = self.connection.clone().send_packed_command(command).await;
        match self.checked(answer)? {
            Value::ServerError(error) => Err(self.noted(Failure::of_reply(&error))),
            value => Ok(value),
        }
    }

    /// Sends a short command, whose answer is not needed, in front of the next one. Keep the returned future until the
    /// next command is answered: the driver sends nothing for a caller that is gone.
    ///
    /// If answers to several clients are ready, Redis and Valkey write first to the client whose empty buffer was
    /// filled last (`putClientInPendingWriteQueue` in `networking.c`). The answer to a script follows the messages of
    /// the script. So without this command the client that releases a lock gets its answer before the next owner gets
    /// its message; with it, that client is last. The command is `TIME`, which every connection sends from time to
    /// time anyway.
    pub(crate) fn send_in_front(&self) -> Pin<Box<impl Future<Output = RedisResult<Value>>>> {
        let mut connection = self.connection.clone();
        let mut sending =
            Box::pin(unconstrained(
                async move { connection.send_packed_command(&::redis::cmd("TIME")).await },
            ));
        // The first poll queues it: the driver's queue has no bound that could be reached ([`QUEUE`](super::dial::QUEUE)), and
        // `unconstrained` exempts the command from tokio's budget for the task.
        let _ = sending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        sending
    }

    /// Sends several commands at once and returns their answers. An error reply is a value at its position.
    pub(crate) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        // One write: the command of another caller never gets between these. ASKING requires that, because it counts
        // for the next command alone.
        let answers = self.connection.clone().send_packed_commands(commands, 0, commands.len()).await;
        self.checked(answers)
    }

    /// Returns the answer to a request, unless it may be the answer to another one.
    fn checked<T>(&self, answer: RedisResult<T>) -> Result<T, Failure> {
        // Checked after the answer has arrived: the message that shifts the replies is inspected before they are
        // delivered.
        if self.is_out_of_step() {
            return Err(Failure::out_of_step());
        }
        if answer.is_ok() {
            self.answers.note();
        }
        answer.map_err(|error| self.noted(Failure::of_error(&error)))
    }

    /// Returns whether replies may belong to other requests. Nothing may be sent over such a connection.
    pub(crate) fn is_out_of_step(&self) -> bool {
        self.poisoned.out_of_step.load(Ordering::Acquire)
    }

    /// Returns `failure`. Wakes the supervisor if the failure requires a new connection.
    pub(crate) fn noted(&self, failure: Failure) -> Failure {
        if failure.reaction == Reaction::Reconnect {
            self.poisoned.told.notify_one();
        }
        failure
    }
}
