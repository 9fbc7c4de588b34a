//! Who waits in a store's queue: where the store's word for them is delivered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::owner::Owner;

/// The waiting owners of one manager.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<HashMap<Owner, Arc<Slot>>>);

/// What a waiting owner was told.
#[derive(Debug, Default)]
struct Slot {
    /// The number of waiters behind the owner's queue entry when the store served it.
    granted: Mutex<Option<usize>>,
    bell: Notify,
}

impl Waits {
    fn slots(&self) -> MutexGuard<'_, HashMap<Owner, Arc<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen for `owner`. Before the request is sent: the store's word may overtake its answer.
    pub(crate) fn expect(waits: &Arc<Self>, owner: Owner) -> Expected {
        let slot = Arc::new(Slot::default());
        waits.slots().insert(owner, Arc::clone(&slot));
        Expected { waits: Arc::clone(waits), owner, slot }
    }

    /// The store served `owner`. Nothing happens for one that does not wait (any more): it holds, or has given up and
    /// says so itself.
    pub(crate) fn granted(&self, owner: Owner, waiters: usize) {
        let slot = self.slots().get(&owner).cloned();
        if let Some(slot) = slot {
            *slot.lock() = Some(waiters);
            slot.bell.notify_one();
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots().is_empty()
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<usize>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One owner's listener; dropping it ends the listening.
#[derive(Debug)]
pub(crate) struct Expected {
    waits: Arc<Waits>,
    owner: Owner,
    slot: Arc<Slot>,
}

impl Expected {
    /// Whether the store has said that the owner is granted; tells once.
    pub(crate) fn granted(&self) -> Option<usize> {
        self.slot.lock().take()
    }

    /// Completes when the store has served the owner, and returns once how many waited behind it. Cancel safe.
    pub(crate) async fn word(&self) -> usize {
        loop {
            if let Some(waiters) = self.granted() {
                return waiters;
            }
            self.slot.bell.notified().await;
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.waits.slots().remove(&self.owner);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::owner::OwnerSource;

    #[tokio::test(start_paused = true)]
    async fn a_word_reaches_the_one_it_is_for_and_no_one_else() {
        let (waits, owners) = (Arc::<Waits>::default(), OwnerSource::new().expect("random bytes"));
        let (one, two) = (owners.mint(), owners.mint());
        let (first, second) = (Waits::expect(&waits, one), Waits::expect(&waits, two));
        waits.granted(one, 3);
        assert_eq!(first.word().await, 3, "told before anybody waited for it");
        let nothing = tokio::time::timeout(Duration::from_secs(1), first.word()).await;
        assert!(nothing.is_err(), "told once");
        drop(first);
        waits.granted(one, 0);
        drop(second);
        assert!(waits.is_empty());
    }
}
