//! The session of one manager, begun again whenever it ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use zookeeper_client::SessionState;

use super::config::Config;
use super::error::Failure;
use super::session::{PROOFS, Session, now};
use crate::backend::{Listener, NodeAnswer};
use crate::error::{LockErrorKind, LossReason};
use crate::sync::Mutex;

/// The pause before another try to begin a session.
const AGAIN: Duration = Duration::from_millis(100);
/// The same, if the servers have changed. Each try costs them two writes.
const LATER: Duration = Duration::from_secs(2);
/// How often the task checks whether its manager was dropped, so that it ends too.
const LOOK: Duration = Duration::from_millis(500);

/// A manager, as the store knows it.
#[derive(Debug)]
pub(super) struct Process {
    config: Arc<Config>,
    /// The session timeout that the store promises in its capability.
    promised: Duration,
    listeners: Mutex<Vec<Weak<dyn Listener>>>,
    background: Option<Handle>,
    state: watch::Sender<State>,
}

/// The state that a call finds.
#[derive(Clone, Debug)]
enum State {
    /// No session yet; the failure of the last try, if there was one.
    Beginning(Option<Failure>),
    Live(Arc<Session>),
    /// There will be no session.
    Gone(Gone),
}

/// Why there will be no session.
#[derive(Clone, Copy, Debug)]
enum Gone {
    Closed,
    WithoutRuntime,
}

impl Gone {
    fn failure(self) -> Failure {
        let (kind, detail) = match self {
            Self::Closed => (LockErrorKind::ShuttingDown, "the store is closed"),
            Self::WithoutRuntime => {
                (LockErrorKind::Unavailable, "there is no runtime that could keep a session alive")
            }
        };
        Failure::new(kind, detail).permanent()
    }
}

impl Process {
    /// Attaches a manager, and begins its session on `background`.
    pub(super) fn attach(
        config: Arc<Config>,
        promised: Duration,
        listener: Weak<dyn Listener>,
        background: Option<&Handle>,
    ) -> Arc<Self> {
        let state = watch::Sender::new(State::Beginning(None));
        let (listeners, own) = (Mutex::new(vec![listener]), background.cloned());
        let process = Arc::new(Self { config, promised, listeners, background: own, state });
        match background {
            Some(background) => {
                background.spawn(supervise(Arc::clone(&process)));
            }
            None => {
                process.state.send_replace(State::Gone(Gone::WithoutRuntime));
            }
        }
        process
    }

    pub(super) fn listen(&self, listener: Weak<dyn Listener>) {
        let mut listeners = self.listeners.lock();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener);
    }

    /// Returns whether the listener was dropped, or the store was closed.
    pub(super) fn is_gone(&self) -> bool {
        matches!(*self.state.borrow(), State::Gone(_))
            || !self.listeners.lock().iter().any(|listener| listener.strong_count() > 0)
    }

    /// Ends the session, and begins no further one.
    pub(super) fn close(&self) -> Option<Arc<Session>> {
        match self.state.send_replace(State::Gone(Gone::Closed)) {
            State::Live(session) => Some(session),
            State::Beginning(_) | State::Gone(_) => None,
        }
    }

    /// Returns the session, or waits for it, without a deadline.
    async fn session(&self) -> Result<Arc<Session>, Failure> {
        let mut state = self.state.subscribe();
        loop {
            match &*state.borrow_and_update() {
                State::Live(session) if !session.is_over() => return Ok(Arc::clone(session)),
                State::Gone(why) => return Err(why.failure()),
                State::Beginning(Some(failure)) if failure.is_permanent() => return Err(failure.clone()),
                State::Live(_) | State::Beginning(_) => {}
            }
            // The sender lives as long as `self`.
            let _ = state.changed().await;
        }
    }

    /// Returns the session when it is connected, without a deadline.
    pub(super) async fn ready(&self) -> Result<Arc<Session>, Failure> {
        loop {
            let session = self.session().await?;
            if session.connected().await.is_ok() {
                return Ok(session);
            }
            // That session is over, or its end is about to be noticed.
            session.ends().await;
        }
    }

    /// Returns the session if there is one.
    pub(super) fn current(&self) -> Option<Arc<Session>> {
        match &*self.state.borrow() {
            State::Live(session) if !session.is_over() => Some(Arc::clone(session)),
            State::Live(_) | State::Beginning(_) | State::Gone(_) => None,
        }
    }

    /// Returns why there is no session.
    pub(super) fn failure(&self) -> Failure {
        match &*self.state.borrow() {
            State::Beginning(Some(failure)) => failure.clone(),
            State::Gone(why) => why.failure(),
            State::Live(_) | State::Beginning(None) => {
                Failure::new(LockErrorKind::Unavailable, "no server is connected; are the servers up?")
            }
        }
    }

    /// Replaces the state, unless the process was closed meanwhile. Returns whether it did.
    fn set(&self, state: State) -> bool {
        self.state.send_if_modified(|current| {
            let open = !matches!(current, State::Gone(_));
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

    /// Waits until the process is closed.
    async fn closed(&self) {
        let _ = self.state.subscribe().wait_for(|state| matches!(state, State::Gone(_))).await;
    }

    /// Begins a session.
    async fn begin(&self) -> Result<Arc<Session>, Failure> {
        let sent = now();
        let within = self.config.dial_timeout;
        let connecting = async {
            match self.config.connect_again(self.promised).await {
                Ok(client) => Ok(client),
                Err(error) => Err(self.config.refusal(&error, within).await),
            }
        };
        let client = timeout(within, connecting).await.unwrap_or_else(|_| Err(Failure::no_answer(within)));
        let client = client.map_err(Failure::before_any_request)?;
        let session = Arc::new(Session::new(client, sent));
        if session.timeout() > self.promised {
            let (now, before) = (session.timeout(), self.promised);
            return Err(Failure::new(
                LockErrorKind::Unavailable,
                format!("the servers give sessions of {now:?} now, and gave {before:?}: connect anew"),
            )
            .permanent());
        }
        Ok(session)
    }

    /// Watches the node of a holder, if it is not watched yet. If another process deletes the node, the holder is
    /// notified.
    pub(super) fn watch(self: &Arc<Self>, session: &Arc<Session>, prefix: &str, directory: &str) {
        let Some(background) = &self.background else { return };
        let Ok(Some(node)) = session.with(|grants| grants.watch(prefix)) else { return };
        let (process, session) = (Arc::clone(self), Arc::clone(session));
        let path = format!("{directory}/{node}");
        background.spawn(async move {
            if session.removed(&path).await {
                process.lost(&session, &path, LossReason::Taken);
            } else {
                // The next renewal tries again.
                let _ = session.with(|grants| grants.unwatched(&path));
            }
        });
    }

    /// Reports the grant with the node at `path` as lost, if it is one.
    pub(super) fn lost(&self, session: &Session, path: &str, reason: LossReason) {
        if let Ok(Some(owner)) = session.with(|grants| grants.removed(path)) {
            self.tell(|listener| listener.lost(owner, reason));
        }
    }

    /// Ends `session`, and reports its grants as lost.
    pub(super) fn end(&self, session: &Session) {
        let owners = session.end();
        if !owners.is_empty() {
            self.tell(|listener| listener.session_ended(&owners));
        }
        // The places of the waiters are lost too: they send another request.
        self.tell(|listener| listener.reconnected());
    }
}

/// Keeps a session for `process` until its manager was dropped.
async fn supervise(process: Arc<Process>) {
    while !process.is_gone() {
        process.tell(|listener| listener.dials());
        match process.begin().await {
            Ok(session) => {
                if process.set(State::Live(Arc::clone(&session))) {
                    process.tell(|listener| listener.reconnected());
                    tokio::select! {
                        () = keep(&process, &session) => {}
                        () = session.tidies() => {}
                    }
                }
                // This comes first, so that a renewal finds either the session or its end.
                process.end(&session);
                process.set(State::Beginning(None));
            }
            Err(failure) => {
                let pause = if failure.is_permanent() { LATER } else { AGAIN };
                process.set(State::Beginning(Some(failure)));
                sleep(pause).await;
            }
        }
    }
    if let Some(session) = process.close() {
        process.end(&session);
    }
}

/// Keeps the session alive, and returns when it is over or no longer needed.
async fn keep(process: &Process, session: &Session) {
    let every = session.timeout() / PROOFS;
    // The client does not report which server answers for the ensemble.
    let node = process.config.hosts();
    let mut states = session.client().state_watcher();
    let mut lost = false;
    let mut looked = now();
    loop {
        match states.state() {
            SessionState::SyncConnected => {
                // An answer counts from before the request, so a late one is useful too. Without any, the next try
                // comes when the last proof has expired.
                let asked = now();
                let contact = timeout(session.timeout() / 2, session.contact(&process.config.base));
                let contact = tokio::select! {
                    contact = contact => contact,
                    () = process.closed() => return,
                    // A connection that is lost fails the request, but the client may notice late.
                    _ = states.changed() => continue,
                };
                if let Ok(Ok(())) = contact {
                    let round_trip = now().since(asked);
                    process.tell(|listener| listener.node_answered(&NodeAnswer::new(&node, round_trip)));
                    if std::mem::take(&mut lost) {
                        process.tell(|listener| listener.reconnected());
                    }
                }
            }
            SessionState::Disconnected | SessionState::ConnectedReadOnly => {
                // The client redials on its own.
                process.tell(|listener| listener.dials());
                lost = true;
            }
            SessionState::AuthFailed | SessionState::Expired | SessionState::Closed => return,
        }
        if now().since(looked) >= LOOK {
            looked = now();
            if process.is_gone() {
                return;
            }
        }
        tokio::select! {
            _ = timeout(every.min(LOOK), states.changed()) => {}
            () = process.closed() => return,
        }
    }
}
