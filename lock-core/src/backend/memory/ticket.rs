//! A claim in the queue of a key, and the futures that wait for its turn.

use std::sync::Arc;

use super::compatibility::Share;
use super::events::Event;
use crate::clock::Moment;
use crate::owner::{Owner, OwnerRecord};
use crate::sync::Notify;

/// A claim that is queued.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) owner: Owner,
    pub(super) share: Share,
    pub(super) record: OwnerRecord,
    /// When the ticket expires. This counts only while no watcher awaits it.
    pub(super) deadline: Moment,
    pub(super) watchers: Vec<Watcher>,
}

/// A pending `changed` future.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) id: u64,
    pub(super) share: Share,
    pub(super) process: u128,
    /// The holder is of the same manager, which was expected to hand the grant on.
    pub(super) local: bool,
    pub(super) wake: Arc<Notify>,
    /// Whether its turn has come, and its future has not seen that yet.
    pub(super) called: bool,
    /// When the watcher wakes to check for expiry; only one watcher of a key does.
    pub(super) armed: Option<Moment>,
}

/// The result of a watcher's check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Check {
    /// Another try makes sense, whatever the state of the other keys of the claim.
    Retry,
    /// Its turn has come at this key.
    Ready,
    /// Its turn has not come; with a moment, check again then.
    Wait(Option<Moment>),
}

impl Ticket {
    /// Whether a watcher awaits its turn. Such a ticket lives without heartbeats.
    pub(super) fn is_awaited(&self) -> bool {
        self.watchers.iter().any(|watcher| !watcher.called)
    }

    /// Returns the first watcher that was not called.
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
