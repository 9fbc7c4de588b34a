//! Whom a change concerns: told when the locks of the store are given back.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use crate::backend::Listener;
use crate::error::LossReason;
use crate::key::Key;
use crate::owner::Owner;
use crate::sync::Mutex;

/// What a change brings about outside of its entry.
#[derive(Debug)]
pub(super) enum Event {
    /// A waiter is to look.
    Wake(Arc<Notify>),
    /// Somebody began to wait for what this process holds.
    Contended(u128),
    /// The latch is open, for which this process waits.
    Opened(u128),
    /// The grant of this owner was taken away.
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

    /// Sends what a change of `key` brought about. No lock of the store is held.
    pub(super) fn send(&self, key: &Key, events: Vec<Event>) {
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
