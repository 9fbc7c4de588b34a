//! One supervised connection: watched while it is up, and dialled again whenever it is lost.
//!
//! The reconnecting connections that drivers offer give up while they are idle, let their callers wait past a deadline,
//! and do not notice a server that stopped answering. Each of the three breaks the promises of a lock, so the stores
//! here supervise their connections themselves.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::sleep;

use super::Failure;
use crate::backoff::Pauses;

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

    /// Returns the address, for the log.
    fn address(&self) -> impl fmt::Display;

    /// Returns the connection of a session.
    fn connection(session: &Self::Session) -> &Arc<Self::Connection>;

    /// Returns whether requests may still be sent over a connection that has not ended.
    fn is_usable(connection: &Self::Connection) -> bool;

    /// Dials once, within a deadline of its own, and proves that the server can hold locks.
    fn dial(&self) -> impl Future<Output = Result<Self::Session, Failure<Self::Reaction>>> + Send;

    /// Watches a connection that callers use from now on. Returns when it is lost, with the reason.
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
}

impl<C: Connector> Clone for State<C> {
    fn clone(&self) -> Self {
        Self { connection: self.connection.clone(), failure: self.failure.clone() }
    }
}

/// Starts the supervisor on the current runtime. It ends with that runtime, or once all receivers are dropped.
pub(super) fn supervise<C: Connector>(
    connector: Arc<C>,
    first: Option<C::Session>,
) -> watch::Receiver<State<C>> {
    let connection = first.as_ref().map(|session| Arc::clone(C::connection(session)));
    let (sender, receiver) = watch::channel(State { connection, failure: None });
    tokio::spawn(async move {
        tokio::select! {
            // `biased` keeps the simulation deterministic.
            biased;
            () = keep_connected(&*connector, &sender, first) => {}
            // Ends a dial half-way too: nobody is left who could use the connection.
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
    let (mut pauses, mut legacy) = (C::PAUSES, C::Legacy::default());
    loop {
        let dialled = match first.take() {
            Some(session) => Ok(session),
            None => connector.dial().await,
        };
        let failure = match dialled {
            Ok(mut session) => {
                let connection = Arc::clone(C::connection(&session));
                // Before the watch, which may wake the waiters of a lost connection: they must find this one when they
                // ask.
                sender.send_replace(State { connection: Some(connection), failure: None });
                tracing::debug!(server = %connector.address(), "connected");
                connector.watch(&mut session, &mut legacy, &mut pauses).await
            }
            Err(failure) => failure,
        };
        tracing::debug!(server = %connector.address(), ?failure, "no connection");
        // Published before the pause, so that callers learn of a permanent failure at once.
        sender.send_replace(State { connection: None, failure: Some(failure) });
        // Jitter, so that the processes of a service do not all dial a restarted server at the same instant.
        sleep(pauses.next().mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}
