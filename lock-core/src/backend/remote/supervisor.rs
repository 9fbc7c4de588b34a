//! One supervised connection: watched while it is up, and dialled again whenever it is lost.
//!
//! The reconnecting connections that drivers offer give up while they are idle, let their callers wait past a deadline,
//! and do not notice a server that stopped answering. Each of the three breaks the promises of a lock, so the stores
//! here supervise their connections themselves.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::Failure;
use crate::backoff::Pauses;
use crate::clock::Clock;

/// The pauses between dials that fail in a lasting way, such as for a wrong password. No caller waits for such a dial,
/// and the server writes a line to its log for each.
pub(super) const REFUSED: Pauses = Pauses::new(Duration::from_millis(20), Duration::from_secs(5));

/// Makes and watches the connections to one server.
pub(crate) trait Connector: Send + Sync + 'static {
    /// An established connection, as callers share it.
    type Connection: fmt::Debug + Send + Sync;
    /// A connection with everything that must end with it, such as the task that drives it.
    type Session: Send;
    /// How a connection reacts to a failure.
    type Reaction: Clone + fmt::Debug + Default + Send + Sync;
    /// The state that a lost connection leaves to the next one.
    type Legacy: Default + Send;

    /// The pauses between dials. The longest must be shorter than the deadline of a call, because a caller waits for a
    /// connection no longer than that.
    const PAUSES: Pauses;

    /// Whether a call may go over the connection of another runtime while its own runtime has none.
    const SHARES: bool = false;

    /// Returns the address, for the log.
    fn address(&self) -> impl fmt::Display;

    /// Returns the connection of a session.
    fn connection(session: &Self::Session) -> &Arc<Self::Connection>;

    /// Returns whether requests may still be sent over a connection that has not ended.
    fn is_usable(connection: &Self::Connection) -> bool;

    /// Reports to the listeners that a dial follows.
    fn dials(&self);

    /// Returns the shortest and the longest limit of a dial after a connection was lost. A slow dial raises the next
    /// limit: a short limit finds a server that is back soon, a longer one reaches a slow server.
    fn dial_limits(&self) -> (Duration, Duration);

    /// Dials once, within `limit`, and proves that the server can hold locks.
    fn dial(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Self::Session, Failure<Self::Reaction>>> + Send;

    /// Watches a connection that callers use from now on, until it is lost. Returns the reason of the loss.
    ///
    /// Resets `pauses` once the connection has proved to last. A dial alone proves nothing: a server that closes every
    /// connection at once would be dialled in a tight loop.
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
    /// How many dials have failed one after another.
    pub(super) failed: u32,
}

impl<C: Connector> Clone for State<C> {
    fn clone(&self) -> Self {
        Self { connection: self.connection.clone(), failure: self.failure.clone(), failed: self.failed }
    }
}

/// Starts the supervisor on the current runtime. It ends with that runtime, or once all receivers are dropped.
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
            // This also ends a dial that is under way: no caller is left for its connection.
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
    let mut failed = 0_u32;
    let (shortest, longest) = connector.dial_limits();
    let mut limit = shortest;
    loop {
        let dialled = match first.take() {
            Some(session) => Ok(session),
            None => {
                connector.dials();
                let began = Clock::Suspend.now();
                let dialled = connector.dial(limit).await;
                // Twice the time of the last dial: a server that was slow may be so again.
                limit = (Clock::Suspend.now().since(began) * 2).clamp(shortest, longest.max(shortest));
                dialled
            }
        };
        let failure = match dialled {
            Ok(mut session) => {
                let connection = Arc::clone(C::connection(&session));
                // This comes before the watch, which may wake the waiters of a lost connection: they must find this one
                // when they ask.
                failed = 0;
                sender.send_replace(State { connection: Some(connection), failure: None, failed });
                tracing::debug!(server = %connector.address(), "connected");
                connector.watch(&mut session, &mut legacy, &mut pauses).await
            }
            Err(failure) => {
                failed = failed.saturating_add(1);
                failure
            }
        };
        tracing::debug!(server = %connector.address(), ?failure, "no connection");
        // The error is published before the pause, so that callers get a permanent failure at once.
        let pause = if failure.ends_waits() {
            refused.next()
        } else {
            refused.reset();
            pauses.next()
        };
        sender.send_replace(State { connection: None, failure: Some(failure), failed });
        // Jitter, so that the processes of a service do not all dial a restarted server at the same instant.
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}
