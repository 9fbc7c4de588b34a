//! One connection for each tokio runtime.
//!
//! A connection is driven by a task of the runtime that made it. Used from another runtime it would stall whenever
//! the first one is not polled, and break when that one ends: so the caller's runtimes and the thread that renews
//! have one each, made when first used.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

use super::connection::Connection;
use super::dial::Session;
use super::error::Failure;
use super::shared::Shared;
use super::supervisor::{self, State};
use crate::error::LockErrorKind;
use crate::simulation;

/// The connections of one backend. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Links {
    server: Arc<Shared>,
    /// `None` once closed. A handful at most, so a scan is faster than a map. This is a `std` lock: it is never held
    /// across an await.
    links: RwLock<Option<Vec<(Id, watch::Receiver<State>)>>>,
    /// Waiters for the same connection go on in their order of arrival in a simulated world.
    turns: simulation::Turns,
}

impl Links {
    /// Starts with the connection that proved the server good.
    pub(super) fn new(server: Arc<Shared>, first: Session) -> Self {
        let link = supervisor::supervise(Arc::clone(&server), Some(first));
        let links = Self::idle(server);
        *links.links.write().unwrap_or_else(PoisonError::into_inner) =
            Some(vec![(Handle::current().id(), link)]);
        links
    }

    /// Starts without a connection, and dials when one is wanted.
    pub(super) fn idle(server: Arc<Shared>) -> Self {
        Self { server, links: RwLock::new(Some(Vec::new())), turns: simulation::Turns::default() }
    }

    /// Starts without a connection, and dials at once.
    pub(super) fn lazy(server: Arc<Shared>) -> Self {
        let links = Self::idle(server);
        let _ = links.link();
        links
    }

    pub(super) fn server(&self) -> &Shared {
        &self.server
    }

    /// The connection of this runtime; waits for it, without a deadline of its own.
    pub(super) async fn live(&self) -> Result<Arc<Connection>, Failure> {
        match self.now() {
            Some(live) => Ok(live),
            None => self.wait().await,
        }
    }

    /// The connection of this runtime, if it is up. On the way of every call.
    pub(super) fn now(&self) -> Option<Arc<Connection>> {
        self.state(|state| state.live.clone().filter(|live| !live.is_out_of_step()))
    }

    /// Why this runtime has no connection, as far as its last dial told.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.state(|state| state.failure.clone())
    }

    fn state<T>(&self, read: impl FnOnce(&State) -> Option<T>) -> Option<T> {
        let id = Handle::current().id();
        let links = self.links.read().unwrap_or_else(PoisonError::into_inner);
        let (_, link) = links.as_ref()?.iter().find(|(of, _)| *of == id)?;
        read(&link.borrow())
    }

    async fn wait(&self) -> Result<Arc<Connection>, Failure> {
        let Some(mut link) = self.link() else {
            return Err(Failure::new(LockErrorKind::ShuttingDown, "the connections were closed"));
        };
        // A wrong password stays wrong for as long as anybody would wait here.
        let settled = |state: &State| match &state.live {
            Some(live) => !live.is_out_of_step(),
            None => state.failure.as_ref().is_some_and(Failure::is_permanent),
        };
        let _turn = self.turns.next().await;
        let state = match link.wait_for(settled).await {
            Ok(state) => state.clone(),
            Err(_) => return Err(Failure::new(LockErrorKind::Unavailable, "the runtime is shutting down")),
        };
        match (state.live, state.failure) {
            (Some(live), _) => Ok(live),
            (None, failure) => {
                Err(failure.unwrap_or_else(|| Failure::new(LockErrorKind::Unavailable, "no connection")))
            }
        }
    }

    /// The link of this runtime, made if there is none; those of runtimes that ended are dropped on this occasion.
    /// `None` once everything is closed.
    fn link(&self) -> Option<watch::Receiver<State>> {
        let id = Handle::current().id();
        let mut links = self.links.write().unwrap_or_else(PoisonError::into_inner);
        let links = links.as_mut()?;
        links.retain(|(_, link)| link.has_changed().is_ok());
        if let Some((_, link)) = links.iter().find(|(of, _)| *of == id) {
            return Some(link.clone());
        }
        let link = supervisor::supervise(Arc::clone(&self.server), None);
        links.push((id, link.clone()));
        Some(link)
    }

    /// Ends all connections, for good.
    pub(super) fn close(&self) {
        *self.links.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
