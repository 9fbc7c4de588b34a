//! Defines the notifications of waiters and managers after a change of an entry, and delivers them after the shard is
//! unlocked.

use std::sync::Arc;

use crate::backend::listeners::Listeners;
use crate::backend::message::Message;
use crate::key::Key;
use crate::owner::Owner;
use crate::sync::Notify;

/// A notification after a change of an entry.
#[derive(Debug)]
pub(super) enum Event {
    /// A waiter must check whether its turn has come.
    Wake(Arc<Notify>),
    /// A claim began to wait for a key that this process holds.
    Contended(u128),
    /// A latch that this process waits for is open.
    Opened(u128),
    /// The grant of this owner was released by force.
    Forced(Owner),
}

/// Delivers the events of a change of `key`. The caller must hold no mutex of the store, because a listener may call the
/// store.
#[inline]
pub(super) fn send(listeners: &Listeners, key: &Key, events: Vec<Event>) {
    // Usually there are no waiters, and so no events.
    if !events.is_empty() {
        deliver(listeners, key, events);
    }
}

fn deliver(listeners: &Listeners, key: &Key, events: Vec<Event>) {
    for event in events {
        match event {
            Event::Wake(wake) => wake.notify_one(),
            Event::Contended(process) => Message::Contended(key.as_str()).deliver(listeners, process),
            Event::Opened(process) => Message::Opened(key.as_str()).deliver(listeners, process),
            Event::Forced(owner) => Message::Forced(owner).deliver(listeners, owner.process()),
        }
    }
}
