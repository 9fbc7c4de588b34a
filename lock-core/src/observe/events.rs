//! Defines the stream of events of a manager.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::broadcast::{self, error::RecvError};

use super::event::LockEvent;
use crate::sync::{Mutex, MutexGuard};

/// Receives every event in a test, synchronously and in the order of emission. An implementation must not use the
/// manager.
#[cfg(feature = "testing")]
pub(crate) trait Witness: Send + Sync + fmt::Debug {
    fn see(&self, event: &LockEvent);
}

/// The maximum number of events by which a subscriber may lag.
const CAPACITY: usize = 1024;

/// The events of one manager, and their subscribers.
#[derive(Debug, Default)]
pub(crate) struct Events {
    listeners: Arc<AtomicUsize>,
    to: Mutex<To>,
    #[cfg(feature = "testing")]
    witness: std::sync::OnceLock<Arc<dyn Witness>>,
}

#[derive(Debug, Default)]
enum To {
    /// No subscriber has existed yet.
    #[default]
    Nobody,
    Listeners(broadcast::Sender<LockEvent>),
    /// The manager has shut down.
    Closed,
}

impl Events {
    fn to(&self) -> MutexGuard<'_, To> {
        self.to.lock()
    }

    pub(crate) fn subscribe(&self) -> LockEvents {
        let mut to = self.to();
        let events = match &*to {
            To::Listeners(sender) => sender.subscribe(),
            To::Nobody => {
                let (sender, events) = broadcast::channel(CAPACITY);
                *to = To::Listeners(sender);
                events
            }
            To::Closed => broadcast::channel(1).1,
        };
        self.listeners.fetch_add(1, Ordering::AcqRel);
        LockEvents { events, listeners: Arc::clone(&self.listeners) }
    }

    /// Returns whether there is a subscriber. Without a subscriber, no event is created.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.listeners.load(Ordering::Relaxed) > 0
    }

    /// Sends an event to the subscribers. This never waits for a subscriber. A subscriber that lags too far misses the
    /// oldest events.
    pub(crate) fn emit(&self, event: impl FnOnce() -> LockEvent) {
        if !self.are_wanted() {
            return;
        }
        let event = event();
        #[cfg(feature = "testing")]
        if let Some(witness) = self.witness.get() {
            witness.see(&event);
        }
        let sender = match &*self.to() {
            To::Listeners(sender) => sender.clone(),
            _ => return,
        };
        // The event is sent outside the lock. A waker that runs here may drop a guard, and its release emits another
        // event, which needs the lock.
        let _ = sender.send(event);
    }

    /// Sends every later event to `witness`. Does nothing if a witness is already set.
    #[cfg(feature = "testing")]
    pub(crate) fn show(&self, witness: Arc<dyn Witness>) {
        if self.witness.set(witness).is_ok() {
            self.listeners.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Ends the streams. Subscribers still receive the events that were emitted before.
    pub(crate) fn close(&self) {
        // The last sender is dropped outside the lock, because its drop wakes the subscribers.
        let before = std::mem::replace(&mut *self.to(), To::Closed);
        drop(before);
    }
}

/// The events of a manager since the call of [`LockManager::events`](crate::LockManager::events).
///
/// The stream is bounded. A subscriber that lags by more than 1,024 events misses the oldest events, and receives their
/// number as [`LockEvent::Missed`]. A lock never waits for a subscriber. If there are several subscribers, each
/// receives every event.
pub struct LockEvents {
    events: broadcast::Receiver<LockEvent>,
    listeners: Arc<AtomicUsize>,
}

impl LockEvents {
    /// Returns the next event. Returns `None` after the manager was shut down, or was dropped with all its guards.
    ///
    /// # Cancel safety
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<LockEvent> {
        match self.events.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(missed)) => Some(LockEvent::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

impl Drop for LockEvents {
    fn drop(&mut self) {
        self.listeners.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for LockEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockEvents").field("waiting", &self.events.len()).finish()
    }
}
