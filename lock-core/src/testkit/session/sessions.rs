//! Keeps the sessions of a store, and the claims that live in these sessions.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::memory::Memory;
use crate::backend::{Backend, BoxFuture, Claim, Listener, Placement};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;
use crate::owner::Owner;
use crate::sync::{Mutex, MutexGuard};

/// All sessions of one store.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) memory: Memory,
    pub(super) placement: Placement,
    /// The time for which the store keeps a session without a keep-alive.
    pub(super) timeout: Duration,
    /// Whether sessions need keep-alives.
    pub(super) keep_alive: bool,
    /// Notifies the tasks that send keep-alives that a session has ended, so that they begin another session.
    pub(super) over: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<u128, Session>,
    /// The attached processes, in the order in which they were attached.
    processes: Vec<u128>,
    loses_notifications: bool,
    ended: u64,
}

/// The session of one process.
#[derive(Debug)]
struct Session {
    listener: Weak<dyn Listener>,
    /// The number of the session. Each further session of the process has a larger number.
    number: u64,
    /// The time when the session ends if no further keep-alive arrives.
    until: Option<Moment>,
    claims: HashMap<(Owner, Key), Entry>,
}

/// A claim that lives in a session.
pub(super) struct Entry {
    claim: Claim,
    granted: bool,
    /// The watch that keeps the queue entry, because the memory store drops an entry without a watch. The watch is not
    /// polled again.
    _watch: Option<BoxFuture<'static, ()>>,
}

impl Entry {
    pub(super) fn granted(claim: Claim) -> Self {
        Self { claim, granted: true, _watch: None }
    }

    /// Makes an entry for a waiting claim. Do not call this under the mutex of the sessions, because the memory store
    /// may call a listener.
    pub(super) fn queued(memory: &Memory, claim: Claim) -> Self {
        let (memory, watched) = (memory.clone(), claim.clone());
        let mut watch: BoxFuture<'static, ()> = Box::pin(async move { memory.changed(&watched).await });
        // The first poll registers the watch.
        let done = watch.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        Self { claim, granted: false, _watch: (!done).then_some(watch) }
    }
}

impl Entry {
    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("claim", &self.claim)
            .field("granted", &self.granted)
            .finish_non_exhaustive()
    }
}

impl Sessions {
    pub(super) fn new(timeout: Duration, placement: Placement, keep_alive: bool) -> Self {
        let (over, state) = (Arc::default(), Mutex::default());
        Self { memory: Memory::new(), placement, timeout, keep_alive, over, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn now(&self) -> Moment {
        self.placement.clock().now()
    }

    /// Attaches a process. Returns whether it is new.
    pub(super) fn attach(&self, process: u128, listener: Weak<dyn Listener>) -> bool {
        let mut state = self.state();
        if let Some(session) = state.sessions.get_mut(&process) {
            session.listener = listener;
            return false;
        }
        state.processes.push(process);
        state.sessions.insert(process, Session { listener, number: 0, until: None, claims: HashMap::new() });
        true
    }

    /// Returns the number of the session of `process`, and the time for which the session is certain to live.
    pub(super) fn session(&self, process: u128) -> Result<(u64, Duration)> {
        self.expire();
        let state = self.state();
        let none = |detail: &'static str| LockError::new(LockErrorKind::Unavailable, detail).nothing_taken();
        let session = state.sessions.get(&process).ok_or_else(|| none("its process is not attached"))?;
        let lease = match session.until {
            _ if !self.keep_alive => self.timeout,
            Some(until) => until.remaining(self.now()),
            None => Duration::ZERO,
        };
        if lease.is_zero() { Err(none("its process has no session")) } else { Ok((session.number, lease)) }
    }

    /// Extends the session of `process` to a full timeout from now. If the listener was dropped, ends the session and
    /// returns `false`.
    pub(super) fn sign_of_life(&self, process: u128) -> bool {
        self.expire();
        let until = self.now().plus(self.timeout);
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(&process) else { return false };
        session.until = Some(until);
        let lives = session.listener.strong_count() > 0;
        drop(state);
        if !lives {
            self.end(process);
        }
        lives
    }

    /// Adds an entry to the session `number`. If that session has ended, returns the entry, which the caller must
    /// release.
    #[must_use = "an entry that is returned must be released"]
    pub(super) fn file(&self, number: u64, entry: Entry) -> Option<Entry> {
        let mut state = self.state();
        let process = entry.claim.owner.process();
        let Some(session) = state.sessions.get_mut(&process).filter(|session| session.number == number)
        else {
            return Some(entry);
        };
        let before = session.claims.insert((entry.claim.owner, entry.claim.key.clone()), entry);
        // Dropping the watch of the entry may call a listener, so the mutex is unlocked first.
        drop(state);
        drop(before);
        None
    }

    /// Returns whether `claim` is granted in the current session of its process.
    pub(super) fn is_granted(&self, claim: &Claim) -> bool {
        let state = self.state();
        let session = state.sessions.get(&claim.owner.process());
        session
            .and_then(|session| session.claims.get(&(claim.owner, claim.key.clone())))
            .is_some_and(|entry| entry.granted)
    }

    pub(super) fn forget(&self, claim: &Claim) {
        let mut gone = Vec::new();
        let mut state = self.state();
        if let Some(session) = state.sessions.get_mut(&claim.owner.process()) {
            gone.extend(claim.keys().filter_map(|key| session.claims.remove(&(claim.owner, key.clone()))));
        }
        drop(state);
        drop(gone);
    }

    /// Ends the sessions for which no keep-alive arrived in time.
    pub(super) fn expire(&self) {
        let now = self.now();
        let silent: Vec<u128> = {
            let state = self.state();
            let is_over = |session: &Session| session.until.is_some_and(|until| until.is_past(now));
            state
                .sessions
                .iter()
                .filter(|(_, session)| is_over(session))
                .map(|(process, _)| *process)
                .collect()
        };
        silent.into_iter().for_each(|process| self.end(process));
    }

    pub(super) fn end(&self, process: u128) {
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(&process) else { return };
        session.number += 1;
        session.until = None;
        let (claims, listener) = (std::mem::take(&mut session.claims), session.listener.upgrade());
        state.ended += 1;
        let is_told = !state.loses_notifications;
        drop(state);
        let granted = claims.values().filter(|entry| entry.granted).map(|entry| entry.claim.owner);
        let granted: Vec<Owner> = granted.collect();
        // As in a real store, the keys are free before the process is notified.
        for entry in claims.into_values() {
            self.memory.give_back(&entry.claim, None, Clock::Tokio.now());
        }
        if let Some(listener) = listener.filter(|_| is_told) {
            listener.session_ended(&granted);
            listener.reconnected();
        }
        self.over.notify_waiters();
    }

    pub(super) fn processes(&self) -> Vec<u128> {
        self.state().processes.clone()
    }

    pub(super) fn listeners(&self) -> Vec<Arc<dyn Listener>> {
        self.state().sessions.values().filter_map(|session| session.listener.upgrade()).collect()
    }

    pub(super) fn lose_notifications(&self, lose: bool) {
        self.state().loses_notifications = lose;
    }

    pub(super) fn loses_notifications(&self) -> bool {
        self.state().loses_notifications
    }

    pub(super) fn grants(&self) -> usize {
        let state = self.state();
        state
            .sessions
            .values()
            .flat_map(|session| session.claims.values())
            .filter(|entry| entry.granted)
            .count()
    }

    pub(super) fn ended(&self) -> u64 {
        self.state().ended
    }
}
