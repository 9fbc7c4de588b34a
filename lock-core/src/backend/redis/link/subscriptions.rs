//! The subscriptions of a connection.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
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
    /// The version of the listeners whose waiters are subscribed, for each slot on a Cluster node. On a single server,
    /// the slot is `None`.
    waiters: Mutex<HashMap<Option<u16>, u64>>,
    /// The version of the listeners whose holders are subscribed, or are being subscribed; 0 if no holder is.
    pub(super) holders: AtomicU64,
    subscribing: tokio::sync::Mutex<()>,
}

impl Subscriptions {
    /// Returns the version of the listeners whose waiters are subscribed for a slot; 0 if no waiter is.
    pub(super) fn version_of(&self, slot: Option<u16>) -> u64 {
        self.waiters.lock().get(&slot).copied().unwrap_or(0)
    }

    /// Records the version of the listeners whose waiters are subscribed for a slot.
    pub(super) fn covers(&self, slot: Option<u16>, version: u64) {
        self.waiters.lock().insert(slot, version);
    }

    /// Waits for the right to subscribe, which only one caller has at a time. Returns `None` if another caller has this
    /// right for too long: that caller may no longer be polled, and subscribing twice does no harm.
    pub(super) async fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        timeout(SUBSCRIBING, self.subscribing.lock()).await.ok()
    }
}
