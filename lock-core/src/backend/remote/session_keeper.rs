//! Keeps the session of one manager with a store whose locks live in sessions. When the session ends, the keeper begins
//! another session.
//!
//! A store defines how a session begins, how it is kept alive, and which grants it held. The keeper runs on the
//! library's own thread. It notifies the holders of an ended session before the next session begins.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Failure;
use crate::backend::{Claim, Listener};
use crate::clock::Clock;
use crate::error::{self, LockError, LockErrorKind};
use crate::owner::Owner;
use crate::sync::{Mutex, change, survives};

/// The pause before another session is begun, after a failure or after a session that has ended early.
const AGAIN: Duration = Duration::from_millis(100);
/// The pause before another session is begun, if only a change of the settings can help. It is longer, because a try
/// may cause writes on the servers.
const LATER: Duration = Duration::from_secs(2);
/// The interval at which a keeper checks whether its managers were dropped. A session sends a sign of life at least as
/// often.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

/// A session of a store.
pub(crate) trait Session: fmt::Debug + Sized + Send + Sync + 'static {
    /// The address and the settings.
    type Servers: fmt::Debug + Send + Sync + 'static;
    type Reaction: Clone + Default + fmt::Debug + Send + Sync + 'static;

    /// The text of the failure while there is no session and no try has failed.
    const NOT_YET: &'static str;

    fn dial(servers: &Self::Servers) -> impl Future<Output = Result<Self, Failure<Self::Reaction>>> + Send;

    /// Keeps the session alive, and returns when it is over. The keeper drops this future when the session is no longer
    /// needed.
    fn keep(&self, keeper: &SessionKeeper<Self>) -> impl Future<Output = ()> + Send;

    /// Returns whether the session is known to have ended.
    fn is_over(&self) -> bool;

    /// Ends the session in this process, so that it grants nothing more. Returns the owners of its grants.
    fn end(&self) -> Vec<Owner>;

    /// Ends the session at the servers, if dropping this value does not.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The keeper of the session of one manager.
#[derive(Debug)]
pub(crate) struct SessionKeeper<S: Session> {
    pub(crate) servers: S::Servers,
    listeners: Mutex<Vec<Weak<dyn Listener>>>,
    state: watch::Sender<State<S>>,
}

#[derive(Debug)]
enum State<S: Session> {
    /// There is no session yet. Contains the failure of the last try, if it has failed.
    Beginning(Option<Failure<S::Reaction>>),
    Live(Arc<S>),
    /// There will be no further session, for this reason.
    Gone(LockErrorKind, &'static str),
}

impl<S: Session> SessionKeeper<S> {
    /// Attaches a manager, and begins its session on `background`.
    fn attach(servers: S::Servers, listener: Weak<dyn Listener>, background: Option<&Handle>) -> Arc<Self> {
        let without = "there is no runtime that could keep a session alive";
        let state = match background {
            Some(_) => State::Beginning(None),
            None => State::Gone(LockErrorKind::Unavailable, without),
        };
        let (listeners, state) = (Mutex::new(vec![listener]), watch::Sender::new(state));
        let keeper = Arc::new(Self { servers, listeners, state });
        if let Some(background) = background {
            background.spawn(supervise(Arc::clone(&keeper)));
        }
        keeper
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        let mut listeners = self.listeners.lock();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener);
    }

    /// Returns whether all managers of this keeper were dropped, or the store was closed.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(*self.state.borrow(), State::Gone(..)) || !self.has_manager()
    }

    /// Returns whether a manager still uses this keeper.
    pub(crate) fn has_manager(&self) -> bool {
        self.listeners.lock().iter().any(|listener| listener.strong_count() > 0)
    }

    /// Ends the session, and begins no further session. Returns the ended session, if there was one.
    pub(crate) fn close(&self) -> Option<Arc<S>> {
        let gone = State::Gone(LockErrorKind::ShuttingDown, "the store is closed");
        let mut before = None;
        survives(|| change(&self.state, |state| before = Some(std::mem::replace(state, gone))));
        let Some(State::Live(session)) = before else { return None };
        self.end(&session);
        Some(session)
    }

    /// Returns the session, and waits for it if necessary. This function has no deadline.
    pub(crate) async fn session(&self) -> Result<Arc<S>, Failure<S::Reaction>> {
        let mut state = self.state.subscribe();
        loop {
            match &*state.borrow_and_update() {
                State::Live(session) if !session.is_over() => return Ok(Arc::clone(session)),
                State::Gone(kind, why) => return Err(Failure::new(*kind, *why).permanent()),
                State::Beginning(Some(failure)) if failure.is_permanent() => return Err(failure.clone()),
                State::Live(_) | State::Beginning(_) => {}
            }
            // `self` keeps the sender alive, so `changed` cannot fail.
            let _ = state.changed().await;
        }
    }

    pub(crate) fn current(&self) -> Option<Arc<S>> {
        match &*self.state.borrow() {
            State::Live(session) if !session.is_over() => Some(Arc::clone(session)),
            State::Live(_) | State::Beginning(_) | State::Gone(..) => None,
        }
    }

    /// Returns the reason why there is no session.
    pub(crate) fn failure(&self) -> Failure<S::Reaction> {
        match &*self.state.borrow() {
            State::Beginning(Some(failure)) => failure.clone(),
            State::Gone(kind, why) => Failure::new(*kind, *why).permanent(),
            State::Live(_) | State::Beginning(None) => Failure::new(LockErrorKind::Unavailable, S::NOT_YET),
        }
    }

    /// Replaces the state if the keeper was not closed. Returns whether the state was replaced.
    fn set(&self, state: State<S>) -> bool {
        let mut open = false;
        survives(|| {
            self.state.send_if_modified(|current| {
                open = !matches!(current, State::Gone(..));
                if open {
                    *current = state;
                }
                open
            })
        });
        open
    }

    pub(crate) fn tell(&self, report: impl Fn(&dyn Listener)) {
        // The listeners are collected first, so that no listener is called under the mutex.
        let all: Vec<_> = self.listeners.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|listener| report(&**listener));
    }

    /// Completes when all managers of this keeper were dropped, or the store was closed.
    async fn gone(&self) {
        let mut state = self.state.subscribe();
        while !self.is_gone() {
            let _ = timeout(LOOK, state.wait_for(|state| matches!(state, State::Gone(..)))).await;
        }
    }

    /// Ends `session`, and reports its grants as lost.
    fn end(&self, session: &S) {
        let owners = session.end();
        if !owners.is_empty() {
            self.tell(|listener| listener.session_ended(&owners));
        }
    }
}

/// The keepers of a store, one for each attached manager. Dropping this value closes them.
#[derive(Debug)]
pub(crate) struct Keepers<S: Session>(Mutex<HashMap<u128, Arc<SessionKeeper<S>>>>);

impl<S: Session> Default for Keepers<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Session> Keepers<S> {
    pub(crate) fn get(&self, process: u128) -> Option<Arc<SessionKeeper<S>>> {
        self.0.lock().get(&process).cloned()
    }

    /// Returns the keeper of the manager that made `claim`.
    pub(crate) fn attached(&self, claim: &Claim) -> error::Result<Arc<SessionKeeper<S>>> {
        let detail = "the store is closed, or the manager of this claim was not attached to it";
        self.get(claim.owner.process()).ok_or_else(|| {
            let error = LockError::new(LockErrorKind::ShuttingDown, detail).permanent();
            error.nothing_taken().with_key(&claim.key)
        })
    }

    /// Attaches a manager. If it is the first of its process, begins its session on `background`.
    pub(crate) fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        background: Option<&Handle>,
        servers: impl FnOnce() -> S::Servers,
    ) {
        let mut keepers = self.0.lock();
        keepers.retain(|_, keeper| keeper.has_manager());
        match keepers.get(&process) {
            Some(known) => known.listen(listener),
            None => {
                keepers.insert(process, SessionKeeper::attach(servers(), listener, background));
            }
        }
    }

    /// Returns the keepers, each with its process.
    pub(crate) fn all(&self) -> Vec<(u128, Arc<SessionKeeper<S>>)> {
        self.0.lock().iter().map(|(process, keeper)| (*process, Arc::clone(keeper))).collect()
    }

    /// Removes the keepers, so that no listener is called under the mutex when their sessions are ended.
    pub(crate) fn drain(&self) -> Vec<Arc<SessionKeeper<S>>> {
        self.0.lock().drain().map(|(_, keeper)| keeper).collect()
    }
}

impl<S: Session> Drop for Keepers<S> {
    fn drop(&mut self) {
        self.drain().iter().for_each(|keeper| drop(keeper.close()));
    }
}

/// Keeps a session for `keeper` until all its managers are dropped or the store is closed.
async fn supervise<S: Session>(keeper: Arc<SessionKeeper<S>>) {
    while !keeper.is_gone() {
        keeper.tell(|listener| listener.dials());
        match S::dial(&keeper.servers).await {
            Ok(session) => {
                let (session, began) = (Arc::new(session), Clock::Suspend.now());
                if keeper.set(State::Live(Arc::clone(&session))) {
                    keeper.tell(|listener| listener.reconnected());
                    tokio::select! {
                        () = session.keep(&keeper) => {}
                        () = keeper.gone() => {}
                    }
                }
                // The session ends before the state changes, so that a renewal finds either the session or its end.
                keeper.end(&session);
                session.close().await;
                keeper.set(State::Beginning(None));
                // Without this pause, sessions that end at once would be begun in a tight loop.
                if Clock::Suspend.now().since(began) < LATER {
                    sleep(AGAIN).await;
                }
            }
            Err(failure) => {
                let pause = if failure.is_permanent() { LATER } else { AGAIN };
                keeper.set(State::Beginning(Some(failure)));
                sleep(pause).await;
            }
        }
    }
    if let Some(session) = keeper.close() {
        session.close().await;
    }
}
