//! Keeps one connection for each tokio runtime, and limits the calls over it to their deadlines.
//!
//! A connection is driven by a task of the runtime that created it. If another runtime used the connection, the
//! connection would stall whenever the first runtime is not polled, and break when the first runtime ends. So each
//! runtime of the callers has its own connection, and so does the thread that renews. A connection is created at its
//! first use.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Failure;
use super::supervisor::{Connector, State, supervise};
use crate::backend::Claim;
use crate::error::LockErrorKind;
use crate::simulation;
use crate::sync::RwLock;

/// The supervised connection of each runtime; `None` after all connections were closed.
type Links<C> = Option<Vec<(Handle, watch::Receiver<State<C>>)>>;

/// How long a call waits for the first connection of its own runtime before it may use the connection of another
/// runtime.
const OWN: Duration = Duration::from_millis(100);
/// A runtime that uses the connection of another runtime logs a warning after this number of consecutive failed dials.
const LASTS: u32 = 3;

/// The connections to one server. Dropping the value ends them.
pub(crate) struct PerRuntime<C: Connector> {
    connector: Arc<C>,
    /// The connections of the runtimes. There are only a few entries, so a scan is faster than a map. This is a `std`
    /// lock, which is never held across an await.
    links: RwLock<Links<C>>,
    /// The order of waiting callers. In a simulation, callers that wait for a connection resume in their order of
    /// arrival.
    turns: simulation::Turns,
    /// Whether the log already has a warning that a runtime must use the connection of another runtime.
    warned: AtomicBool,
}

impl<C: Connector + fmt::Debug> fmt::Debug for PerRuntime<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerRuntime").field("connector", &self.connector).finish_non_exhaustive()
    }
}

impl<C: Connector> PerRuntime<C> {
    /// Starts with the session `first`, whose server has passed all checks. Without such a session, dials at once.
    pub(crate) fn new(connector: Arc<C>, first: Option<C::Session>) -> Self {
        let link = supervise(Arc::clone(&connector), first);
        let links = RwLock::new(Some(vec![(Handle::current(), link)]));
        Self { links, ..Self::idle(connector) }
    }

    /// Starts without a connection, and dials when a connection is needed.
    pub(crate) fn idle(connector: Arc<C>) -> Self {
        let (links, turns) = (RwLock::new(Some(Vec::new())), simulation::Turns::default());
        Self { connector, links, turns, warned: AtomicBool::new(false) }
    }

    pub(crate) fn connector(&self) -> &C {
        &self.connector
    }

    /// Returns the connection of this runtime, and waits for it if necessary. This function has no deadline.
    pub(crate) async fn get(&self) -> Result<Arc<C::Connection>, Failure<C::Reaction>> {
        match self.current() {
            Some(connection) => Ok(connection),
            // The wait is boxed: a wait is rare, but otherwise the future of every call would contain the future of the
            // wait.
            None => Box::pin(self.wait()).await,
        }
    }

    /// Returns the connection of this runtime if it is up. Every call uses this function.
    pub(crate) fn current(&self) -> Option<Arc<C::Connection>> {
        self.state(|state| state.connection.clone().filter(|connection| C::is_usable(connection)))
    }

    /// Returns the reason why this runtime has no connection, from its last dial.
    pub(crate) fn failure(&self) -> Option<Failure<C::Reaction>> {
        self.state(|state| state.failure.clone())
    }

    /// Runs a call within its deadline. The calls of every lock pass their future by `pin!(..)`, because an async
    /// function that takes a future by value reserves memory for the future twice.
    pub(crate) async fn within<T>(
        &self,
        deadline: Duration,
        call: impl Future<Output = Result<T, Failure<C::Reaction>>>,
    ) -> Result<T, Failure<C::Reaction>> {
        timeout(deadline, call).await.unwrap_or_else(|_| Err(self.elapsed(deadline)))
    }

    /// Runs an attempt at a claim [within](Self::within) its deadline. Only a claim that was sent may have changed the
    /// store. An attempt whose drop marks the claim as sent must be passed by value, so that its drop comes before the
    /// check.
    pub(crate) async fn attempt<T>(
        &self,
        deadline: Duration,
        claim: &Claim,
        attempt: impl Future<Output = Result<T, Failure<C::Reaction>>>,
    ) -> Result<T, Failure<C::Reaction>> {
        match timeout(deadline, attempt).await {
            Ok(answer) => answer,
            Err(_) if claim.is_sent() => Err(self.elapsed(deadline)),
            Err(_) => Err(self.not_sent(deadline)),
        }
    }

    /// Returns the failure of a call that received no answer before its deadline. The server may have executed the
    /// call.
    fn elapsed(&self, deadline: Duration) -> Failure<C::Reaction> {
        match self.failure() {
            // The connection may have been lost after the request was sent, and a new dial may have failed. Then the
            // error gives the reason of that failure. The outcome of the request is still unknown.
            Some(last) => last.in_doubt(),
            None => Failure::no_answer(deadline),
        }
    }

    /// Returns the failure of a call that was not sent before its deadline.
    fn not_sent(&self, deadline: Duration) -> Failure<C::Reaction> {
        let dialling =
            || Failure::new(LockErrorKind::Unavailable, format!("no connection within {deadline:?}"));
        self.failure().unwrap_or_else(dialling).before_any_request()
    }

    fn state<T>(&self, read: impl FnOnce(&State<C>) -> Option<T>) -> Option<T> {
        // This is the runtime that polls this call, which need not be the runtime that created the backend.
        let id = Handle::current().id();
        let links = self.links.read();
        let (_, link) = links.as_ref()?.iter().find(|(of, _)| of.id() == id)?;
        let state = link.borrow();
        // If the supervisor has panicked, its connection is dead. The caller then starts another supervisor.
        if link.has_changed().is_err() { None } else { read(&state) }
    }

    async fn wait(&self) -> Result<Arc<C::Connection>, Failure<C::Reaction>> {
        // `watch` keeps the last state, so a connection that was established after the call of `current` is not missed.
        let Some(mut link) = self.link() else {
            return Err(Failure::new(LockErrorKind::ShuttingDown, "the connections were closed"));
        };
        // A permanent failure, such as a wrong password, ends the wait, because the failure would outlast the deadline
        // of every caller.
        let settled = |state: &State<C>| match &state.connection {
            Some(connection) => C::is_usable(connection),
            None => state.failure.as_ref().is_some_and(Failure::ends_waits),
        };
        let _turn = self.turns.next().await;
        if C::SHARES {
            let failed_or_settled = |state: &State<C>| state.failure.is_some() || settled(state);
            let first = timeout(OWN, link.wait_for(failed_or_settled)).await;
            let connected = first.is_ok_and(|state| state.is_ok_and(|state| state.failure.is_none()));
            let own = link.borrow().clone();
            if !connected {
                let settles = async {
                    let state = link.wait_for(settled).await;
                    if !state.is_ok_and(|state| state.connection.is_some()) {
                        // This failure ends the wait of this runtime only. The other runtimes get a moment to offer
                        // their connections.
                        tokio::time::sleep(OWN).await;
                    }
                };
                tokio::select! {
                    other = self.of_another(&own) => if let Some(other) = other {
                        return Ok(other);
                    },
                    () = settles => {}
                }
            }
        }
        let state = match link.wait_for(settled).await {
            Ok(state) => state.clone(),
            Err(_) => return Err(Failure::new(LockErrorKind::Unavailable, "the runtime is shutting down")),
        };
        match (state.connection, state.failure) {
            (Some(connection), _) => Ok(connection),
            (None, failure) => {
                Err(failure.unwrap_or_else(|| Failure::new(LockErrorKind::Unavailable, "no connection")))
            }
        }
    }

    /// Returns a connection of another runtime. Without this function, a grant would be lost if the server allows no
    /// further connection for its renewal. A connection answers only while its runtime runs tasks. So this function
    /// starts an empty task on each runtime with a connection, and uses the connection of the first runtime that runs
    /// its task.
    async fn of_another(&self, own: &State<C>) -> Option<Arc<C::Connection>> {
        // A lasting failure means that the server itself hangs, so the connection of another runtime would not help.
        if own.failure.as_ref().is_some_and(Failure::is_lasting) {
            return None;
        }
        let mut running = self.others();
        let other = loop {
            // An error means that the runtime has ended.
            if let Ok(other) = running.join_next().await? {
                break other;
            }
        };
        if own.failed >= LASTS && !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                server = %self.connector.address(), failure = ?own.failure,
                "a runtime gets no connection of its own: its calls, renewals among them, go over the connection of another \
                 runtime, and are late while that one is blocked"
            );
        }
        Some(other)
    }

    /// Starts a task on each runtime that has a usable connection. The task returns the connection. Dropping the set
    /// aborts the tasks.
    fn others(&self) -> JoinSet<Arc<C::Connection>> {
        let links = self.links.read();
        let mut running = JoinSet::new();
        for (runtime, link) in links.iter().flatten() {
            let connection = link.borrow().connection.clone();
            let usable = |connection: &Arc<_>| link.has_changed().is_ok() && C::is_usable(connection);
            if let Some(connection) = connection.filter(usable) {
                running.spawn_on(async { connection }, runtime);
            }
        }
        running
    }

    /// Returns the link of this runtime, and creates it if it is missing. Returns `None` after all connections were
    /// closed. Also removes the links of runtimes that have ended.
    fn link(&self) -> Option<watch::Receiver<State<C>>> {
        let runtime = Handle::current();
        let mut links = self.links.write();
        let links = links.as_mut()?;
        // The sender lives in a task of the runtime, so a closed channel means that the runtime has ended.
        links.retain(|(_, link)| link.has_changed().is_ok());
        // The search is repeated under the write lock, because another caller may have created the link in between.
        if let Some((_, link)) = links.iter().find(|(of, _)| of.id() == runtime.id()) {
            return Some(link.clone());
        }
        // The supervisor starts under the write lock, because two callers of one runtime must not start two
        // supervisors.
        let link = supervise(Arc::clone(&self.connector), None);
        links.push((runtime, link.clone()));
        Some(link)
    }

    /// Closes all connections permanently.
    pub(crate) fn close(&self) {
        // Without receivers a supervisor ends, even in the middle of a dial. With `None`, later callers cannot start
        // another supervisor.
        *self.links.write() = None;
    }
}

#[cfg(test)]
mod tests;
