//! Supervises one connection: watches the connection while it is up, and dials again whenever the connection is lost.
//!
//! Drivers offer connections that reconnect on their own. But these give up while they are idle, let their callers wait
//! past a deadline, and do not notice a server that has stopped answering. Each of these faults breaks the promises of
//! a lock, so the stores here supervise their connections themselves.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::Failure;
use crate::backoff::Pauses;
use crate::clock::Clock;

/// The pauses between dials that fail for a lasting reason, such as a wrong password. These pauses may be long, because
/// no caller waits for such a dial. They should be long, because the server logs each dial.
pub(super) const REFUSED: Pauses = Pauses::new(Duration::from_millis(20), Duration::from_secs(5));

/// Makes and watches the connections to one server.
pub(crate) trait Connector: Send + Sync + 'static {
    /// An established connection that callers share.
    type Connection: fmt::Debug + Send + Sync;
    /// A connection together with everything that must end with it, such as the task that drives it.
    type Session: Send;
    /// How a connection reacts to a failure.
    type Reaction: Clone + fmt::Debug + Default + Send + Sync;
    /// The state that a lost connection passes to the next one.
    type Legacy: Default + Send;

    /// The pauses between dials. The longest pause must be shorter than the deadline of a call, because a caller waits
    /// for a connection only until its deadline.
    const PAUSES: Pauses;

    /// Whether a call may use the connection of another runtime while its own runtime has none.
    const SHARES: bool = false;

    /// Returns the address, for the log.
    fn address(&self) -> impl fmt::Display;

    fn connection(session: &Self::Session) -> &Arc<Self::Connection>;

    /// Returns whether requests may still be sent over a connection that has not ended.
    fn is_usable(connection: &Self::Connection) -> bool;

    /// Reports to the listeners that a server is about to be dialled.
    fn dials(&self);

    /// Returns the shortest and the longest limit of a dial after a connection was lost. With a short limit, a server
    /// that is back is found soon. A slow dial raises the next limit, so that a slow server is also reached.
    fn dial_limits(&self) -> (Duration, Duration);

    /// Dials once, within `limit`, and checks that the server can hold locks.
    fn dial(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Self::Session, Failure<Self::Reaction>>> + Send;

    /// Called for every connection after the first one, once callers can use the connection. While no connection
    /// existed, messages of the server may have been lost.
    fn reconnected(&self, _session: &Self::Session) {}

    /// Watches a new connection, which callers use from now on, until it is lost. Returns the reason for the loss.
    ///
    /// Resets `pauses` when the connection has proved to last. A successful dial does not prove this: without pauses, a
    /// server that closes every connection at once would be dialled in a tight loop.
    fn watch(
        &self,
        session: &mut Self::Session,
        legacy: &mut Self::Legacy,
        pauses: &mut Pauses,
    ) -> impl Future<Output = Failure<Self::Reaction>> + Send;
}

/// The connection of a runtime, or the reason why there is none.
pub(super) struct State<C: Connector> {
    pub(super) connection: Option<Arc<C::Connection>>,
    pub(super) failure: Option<Failure<C::Reaction>>,
    /// The number of consecutive failed dials.
    pub(super) failed: u32,
}

impl<C: Connector> Clone for State<C> {
    fn clone(&self) -> Self {
        Self { connection: self.connection.clone(), failure: self.failure.clone(), failed: self.failed }
    }
}

/// Starts the supervisor on the current runtime. The supervisor ends with that runtime, or when all receivers are
/// dropped.
pub(super) fn supervise<C: Connector>(
    connector: Arc<C>,
    first: Option<C::Session>,
) -> watch::Receiver<State<C>> {
    let connection = first.as_ref().map(|session| Arc::clone(C::connection(session)));
    let (sender, receiver) = watch::channel(State { connection, failure: None, failed: 0 });
    tokio::spawn(async move {
        tokio::select! {
            // `biased` keeps the simulation deterministic.
            biased;
            () = keep_connected(&*connector, &sender, first) => {}
            // This branch also ends a dial in progress, because no caller is left for its connection.
            () = sender.closed() => {}
        }
    });
    receiver
}

async fn keep_connected<C: Connector>(
    connector: &C,
    sender: &watch::Sender<State<C>>,
    mut first: Option<C::Session>,
) {
    let (mut pauses, mut refused, mut legacy) = (C::PAUSES, REFUSED, C::Legacy::default());
    let (mut failed, mut was_connected) = (0_u32, false);
    let (shortest, longest) = connector.dial_limits();
    let mut limit = shortest;
    loop {
        let dialled = match first.take() {
            Some(session) => Ok(session),
            None => {
                connector.dials();
                let began = Clock::Suspend.now();
                let dialled = connector.dial(limit).await;
                // The next limit is twice the time of the last dial, because a slow server may be slow again.
                limit = (Clock::Suspend.now().since(began) * 2).clamp(shortest, longest.max(shortest));
                dialled
            }
        };
        let failure = match dialled {
            Ok(mut session) => {
                let connection = Arc::clone(C::connection(&session));
                // The state is published before the call of `reconnected`. That call may wake the waiters of a lost
                // connection, and they must find this connection for their next request.
                failed = 0;
                sender.send_replace(State { connection: Some(connection), failure: None, failed });
                tracing::debug!(server = %connector.address(), "connected");
                if std::mem::replace(&mut was_connected, true) {
                    connector.reconnected(&session);
                }
                connector.watch(&mut session, &mut legacy, &mut pauses).await
            }
            Err(failure) => {
                failed = failed.saturating_add(1);
                failure
            }
        };
        tracing::debug!(server = %connector.address(), ?failure, "no connection");
        // The failure is published before the pause, so that callers receive a permanent failure at once.
        let pause = if failure.ends_waits() {
            refused.next()
        } else {
            refused.reset();
            pauses.next()
        };
        sender.send_replace(State { connection: None, failure: Some(failure), failed });
        // The pause has jitter, so that the processes of a service do not all dial a restarted server at the same
        // instant.
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}
