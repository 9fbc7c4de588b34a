//! The subscriptions of a connection.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::timeout;

#[cfg(doc)]
use crate::backend::remote::Listeners;
use crate::sync::Mutex;

/// The longest time for which a caller waits for another caller that is subscribing.
const SUBSCRIBING: Duration = Duration::from_millis(250);

/// The subscriptions of one connection. Each number is a [version](Listeners::version) of the listeners: the listeners
/// of that version are subscribed.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// The version of the listeners whose waiters are subscribed; 0 if no waiter is subscribed.
    pub(super) waiters: AtomicU64,
    /// The same version for each slot, on a Cluster node.
    waiters_by_slot: Mutex<HashMap<u16, u64>>,
    /// The version of the listeners whose holders are subscribed, or are being subscribed; 0 if no holder is.
    pub(super) holders: AtomicU64,
    subscribing: tokio::sync::Mutex<()>,
}

impl Subscriptions {
    /// Returns whether a waiter relies on messages over this connection.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiters.load(Ordering::Acquire) > 0
    }

    /// Returns whether holders rely on messages over this connection.
    pub(crate) fn has_holders(&self) -> bool {
        self.holders.load(Ordering::Acquire) > 0
    }

    /// Returns the version of the listeners whose waiters are subscribed for one slot; 0 if no waiter is.
    pub(super) fn version_of(&self, slot: u16) -> u64 {
        let slots = self.waiters_by_slot.lock();
        slots.get(&slot).copied().unwrap_or(0)
    }

    /// Records the version of the listeners whose waiters are subscribed for one slot.
    pub(super) fn covers(&self, slot: u16, version: u64) {
        let mut slots = self.waiters_by_slot.lock();
        slots.insert(slot, version);
        drop(slots);
        self.waiters.fetch_max(version, Ordering::AcqRel);
    }

    /// Waits for the right to subscribe, which only one caller has at a time. Returns `None` if another caller has this
    /// right for too long: that caller may no longer be polled, and subscribing twice does no harm.
    pub(super) async fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        timeout(SUBSCRIBING, self.subscribing.lock()).await.ok()
    }
}
