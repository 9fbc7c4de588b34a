//! The session of one manager, begun again whenever it ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::session::{PROOFS, Session, now};
use crate::backend::Listener;
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::Shared;
use crate::error::LockErrorKind;
use crate::sync::Mutex;

/// The pause before another try to begin a session.
const AGAIN: Duration = Duration::from_millis(100);
/// The same, if only a change of the settings can help.
const LATER: Duration = Duration::from_secs(2);
/// How often the task checks whether its manager was dropped, so that it ends too.
const LOOK: Duration = Duration::from_millis(500);

/// A manager, as the store knows it.
#[derive(Debug)]
pub(super) struct SessionKeeper {
    shared: Arc<Shared>,
    timeout: Duration,
    listeners: Mutex<Vec<Weak<dyn Listener>>>,
    state: watch::Sender<State>,
}

/// The state that a call finds.
#[derive(Clone, Debug)]
enum State {
    /// No session yet; the failure of the last try, if there was one.
    Beginning(Option<Failure>),
    Live(Arc<Session>),
    /// There will be no session.
    Gone,
}

impl SessionKeeper {
    /// Attaches a manager, and begins its session on `background`.
    pub(super) fn attach(
        shared: Arc<Shared>,
        timeout: Duration,
        listener: Weak<dyn Listener>,
        background: Option<&Handle>,
    ) -> Arc<Self> {
        let (state, listeners) = (watch::Sender::new(State::Beginning(None)), Mutex::new(vec![listener]));
        let keeper = Arc::new(Self { shared, timeout, listeners, state });
        match background {
            Some(background) => drop(background.spawn(supervise(Arc::clone(&keeper)))),
            None => drop(keeper.state.send_replace(State::Gone)),
        }
        keeper
    }

    pub(super) fn listen(&self, listener: Weak<dyn Listener>) {
        let mut listeners = self.listeners.lock();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener);
    }

    /// Returns whether the listener was dropped, or the store was closed.
    pub(super) fn is_gone(&self) -> bool {
        matches!(*self.state.borrow(), State::Gone)
            || !self.listeners.lock().iter().any(|listener| listener.strong_count() > 0)
    }

    /// Ends the session, and begins no further one.
    pub(super) fn close(&self) {
        if let State::Live(session) = self.state.send_replace(State::Gone) {
            self.end(&session);
        }
    }

    /// Returns the session, or waits for it, without a deadline.
    pub(super) async fn ready(&self) -> Result<Arc<Session>, Failure> {
        let mut state = self.state.subscribe();
        loop {
            match &*state.borrow_and_update() {
                State::Live(session) if !session.is_over() => return Ok(Arc::clone(session)),
                State::Gone => return Err(gone()),
                State::Beginning(Some(failure)) if failure.is_permanent() => return Err(failure.clone()),
                State::Live(_) | State::Beginning(_) => {}
            }
            // The sender lives as long as `self`.
            let _ = state.changed().await;
        }
    }

    /// Returns the session if there is one.
    pub(super) fn current(&self) -> Option<Arc<Session>> {
        match &*self.state.borrow() {
            State::Live(session) if !session.is_over() => Some(Arc::clone(session)),
            State::Live(_) | State::Beginning(_) | State::Gone => None,
        }
    }

    /// Returns why there is no session.
    pub(super) fn failure(&self) -> Failure {
        match &*self.state.borrow() {
            State::Beginning(Some(failure)) => failure.clone(),
            State::Gone => gone(),
            State::Live(_) | State::Beginning(None) => {
                Failure::new(LockErrorKind::Unavailable, "no server is connected; is it up?")
            }
        }
    }

    /// Replaces the state, unless the keeper was closed meanwhile. Returns whether it did.
    fn set(&self, state: State) -> bool {
        self.state.send_if_modified(|current| {
            let open = !matches!(current, State::Gone);
            if open {
                *current = state;
            }
            open
        })
    }

    fn tell(&self, report: impl Fn(&dyn Listener)) {
        // The grants are collected first: no listener is called under the lock.
        let all: Vec<_> = self.listeners.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|listener| report(&**listener));
    }

    /// Waits until the keeper is closed.
    async fn closed(&self) {
        let _ = self.state.subscribe().wait_for(|state| matches!(state, State::Gone)).await;
    }

    /// Ends `session`, and reports its grants as lost.
    fn end(&self, session: &Session) {
        let owners = session.end();
        if !owners.is_empty() {
            self.tell(|listener| listener.session_ended(&owners));
        }
    }
}

fn gone() -> Failure {
    Failure::new(LockErrorKind::ShuttingDown, "the store is closed, or there is no runtime for its session")
        .permanent()
}

/// Keeps a session for `keeper` until its manager was dropped.
async fn supervise(keeper: Arc<SessionKeeper>) {
    while !keeper.is_gone() {
        keeper.tell(|listener| listener.dials());
        match Session::begin(&keeper.shared, keeper.shared.config.dial_timeout).await {
            Ok(session) => {
                let session = Arc::new(session);
                if keeper.set(State::Live(Arc::clone(&session))) {
                    keeper.tell(|listener| listener.reconnected());
                    keep(&keeper, &session).await;
                }
                // This comes first, so that a renewal finds either the session or its end.
                keeper.end(&session);
                session.close().await;
                keeper.set(State::Beginning(None));
            }
            Err(failure) => {
                let pause = if failure.is_permanent() { LATER } else { AGAIN };
                keeper.set(State::Beginning(Some(failure)));
                sleep(pause).await;
            }
        }
    }
    keeper.close();
}

/// Sends signs of life, and returns when the session is over or no longer needed.
async fn keep(keeper: &SessionKeeper, session: &Session) {
    let every = keeper.timeout / PROOFS;
    let mut looked = now();
    loop {
        tokio::select! {
            // The server has reported the end, or a statement has freed nothing.
            () = session.lost() => return,
            () = session.ends() => return,
            () = keeper.closed() => return,
            proved = timeout(keeper.timeout / 2, session.prove()) => {
                // The answer comes from another process of the server than the one that holds the locks.
                if matches!(proved, Ok(Ok(false))) {
                    return;
                }
            }
        }
        // The server may have ended it by now, and granted the keys to others.
        if session.certain(now()).is_zero() {
            return;
        }
        if now().since(looked) >= LOOK {
            looked = now();
            if keeper.is_gone() {
                return;
            }
        }
        tokio::select! {
            () = sleep(every.min(LOOK)) => {}
            () = session.lost() => return,
            () = session.ends() => return,
            () = keeper.closed() => return,
        }
    }
}
