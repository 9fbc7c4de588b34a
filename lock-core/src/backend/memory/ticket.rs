//! Defines a queued claim, and the futures that wait for its turn, that is, until the key can be granted to it.

use std::sync::Arc;

use super::compatibility::Share;
use super::events::Event;
use crate::clock::Moment;
use crate::owner::{Owner, OwnerRecord};
use crate::sync::Notify;

/// A queued claim.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) owner: Owner,
    pub(super) share: Share,
    pub(super) record: OwnerRecord,
    /// When the ticket expires. The ticket expires only if no watcher waits for its turn.
    pub(super) deadline: Moment,
    pub(super) watchers: Vec<Watcher>,
}

/// A pending `changed` future.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) id: u64,
    pub(super) share: Share,
    pub(super) process: u128,
    /// Whether the watcher expects a hand-off within its manager, because the holder was of the same manager when the
    /// wait began.
    pub(super) local: bool,
    pub(super) wake: Arc<Notify>,
    /// Whether the watcher was woken because its turn has come, and its future has not noticed this yet.
    pub(super) called: bool,
    /// The alarm: the time at which the watcher wakes to check for expired leases. Usually only one watcher of a key
    /// has an alarm.
    pub(super) armed: Option<Moment>,
}

/// The result of a watcher's check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Check {
    /// The claim must be attempted again, whatever the state of its other keys.
    Retry,
    /// The turn of the watcher has come at this key.
    Ready,
    /// The turn has not come yet. If there is a moment, the watcher must check again at that moment.
    Wait(Option<Moment>),
}

impl Ticket {
    /// Returns whether a watcher waits for the turn of the ticket. Such a ticket is *awaited* and does not expire.
    pub(super) fn is_awaited(&self) -> bool {
        self.watchers.iter().any(|watcher| !watcher.called)
    }

    /// Returns the first watcher that was not called yet.
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
