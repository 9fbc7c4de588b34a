//! A claim in the queue of a key, and the futures that wait for its turn.

use std::sync::Arc;

use tokio::sync::Notify;

use super::events::Event;
use crate::backend::Mode;
use crate::clock::Moment;
use crate::owner::{Owner, OwnerRecord};

/// A place in the queue.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) owner: Owner,
    pub(super) mode: Mode,
    pub(super) record: OwnerRecord,
    /// Counts only while nobody waits with it.
    pub(super) deadline: Moment,
    pub(super) watchers: Vec<Watcher>,
}

/// One pending `changed` future.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) id: u64,
    pub(super) mode: Mode,
    pub(super) process: u128,
    /// Its own manager was to pass the key on to it.
    pub(super) local: bool,
    pub(super) wake: Arc<Notify>,
    /// It is this one's turn, and its future has not seen it yet.
    pub(super) called: bool,
    /// Until when it sleeps, to look again on its own; only one watcher of a key does.
    pub(super) armed: Option<Moment>,
}

/// What a watcher finds when it checks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Check {
    /// Another try makes sense, whatever it finds elsewhere.
    Retry,
    /// It is its turn here.
    Ready,
    /// Not yet; with a moment, look again then.
    Wait(Option<Moment>),
}

impl Ticket {
    /// Somebody waits for its turn to come; then it lives without a sign.
    pub(super) fn is_awaited(&self) -> bool {
        self.watchers.iter().any(|watcher| !watcher.called)
    }

    /// The first watcher that was not called.
    pub(super) fn uncalled(&mut self) -> Option<&mut Watcher> {
        self.watchers.iter_mut().find(|watcher| !watcher.called)
    }
}

impl Watcher {
    pub(super) fn call(&mut self, events: &mut Vec<Event>) {
        if !self.called {
            self.called = true;
            events.push(Event::Wake(Arc::clone(&self.wake)));
        }
    }
}
