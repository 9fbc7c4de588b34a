//! Defines the notifications of waiters and managers after a change of an entry, and delivers them after the shard is
//! unlocked.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use crate::backend::Listener;
use crate::error::LossReason;
use crate::key::Key;
use crate::owner::Owner;
use crate::sync::{Mutex, Notify};

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

/// The listeners of the managers that share the store.
#[derive(Default)]
pub(super) struct Listeners(Mutex<HashMap<u128, Weak<dyn Listener>>>);

impl Listeners {
    pub(super) fn listen(&self, process: u128, listener: Weak<dyn Listener>) {
        let mut listeners = self.0.lock();
        listeners.retain(|_, listener| listener.strong_count() > 0);
        listeners.insert(process, listener);
    }

    fn listener(&self, process: u128) -> Option<Arc<dyn Listener>> {
        self.0.lock().get(&process)?.upgrade()
    }

    /// Delivers the events of a change of `key`. The caller must hold no mutex of the store, because a listener may
    /// call the store.
    #[inline]
    pub(super) fn send(&self, key: &Key, events: Vec<Event>) {
        // Usually there are no waiters, and so no events.
        if !events.is_empty() {
            self.deliver(key, events);
        }
    }

    fn deliver(&self, key: &Key, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Wake(wake) => wake.notify_one(),
                Event::Contended(process) => {
                    if let Some(listener) = self.listener(process) {
                        listener.contended(key.as_str());
                    }
                }
                Event::Forced(owner) => {
                    if let Some(listener) = self.listener(owner.process()) {
                        listener.lost(owner, LossReason::Forced);
                    }
                }
                Event::Opened(process) => {
                    if let Some(listener) = self.listener(process) {
                        listener.opened(key.as_str());
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listeners(..)")
    }
}
