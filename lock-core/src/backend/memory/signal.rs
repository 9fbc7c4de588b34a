//! Whom a change concerns: told when the locks of the store are given back.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

use crate::backend::Ear;
use crate::key::Key;
use crate::owner::Owner;

/// Wakes one waiter.
pub(super) type Bell = Arc<Notify>;

/// What a change brings about outside of its entry.
#[derive(Debug)]
pub(super) enum Signal {
    /// A waiter is to look.
    Ring(Bell),
    /// Somebody began to wait for what this process holds.
    Contended(u128),
    /// The latch is open, for which this process waits.
    Opened(u128),
    /// The grant of this owner was taken away.
    Forced(Owner),
}

/// The ears of the managers that share the store.
#[derive(Default)]
pub(super) struct Ears(Mutex<HashMap<u128, Weak<dyn Ear>>>);

impl Ears {
    pub(super) fn listen(&self, process: u128, ear: Weak<dyn Ear>) {
        let mut ears = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ears.retain(|_, ear| ear.strong_count() > 0);
        ears.insert(process, ear);
    }

    fn ear(&self, process: u128) -> Option<Arc<dyn Ear>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&process)?.upgrade()
    }

    /// Sends what a change of `key` brought about. No lock of the store is held.
    pub(super) fn send(&self, key: &Key, signals: Vec<Signal>) {
        for signal in signals {
            match signal {
                Signal::Ring(bell) => bell.notify_one(),
                Signal::Contended(process) => {
                    if let Some(ear) = self.ear(process) {
                        ear.contended(key.as_str());
                    }
                }
                Signal::Forced(owner) => {
                    if let Some(ear) = self.ear(owner.process()) {
                        ear.forced(owner);
                    }
                }
                Signal::Opened(process) => {
                    if let Some(ear) = self.ear(process) {
                        ear.opened(key.as_str());
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Ears {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ears(..)")
    }
}
