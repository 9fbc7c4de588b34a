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
    told: Mutex<Told>,
    bell: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Its place was served; so many more waited behind it.
    granted: Option<usize>,
    /// What was told meanwhile may be lost.
    ask: bool,
}

/// The word of a store to one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It is granted; so many more wait behind it.
    Granted(usize),
    /// It is to ask.
    Ask,
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
            slot.tell(|told| told.granted = Some(waiters));
        }
    }

    /// Everybody is to ask.
    pub(crate) fn ask(&self) {
        let all: Vec<_> = self.slots().values().cloned().collect();
        for slot in all {
            slot.tell(|told| told.ask = true);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots().is_empty()
    }
}

impl Slot {
    fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
        self.bell.notify_one();
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
        self.slot.told.lock().unwrap_or_else(PoisonError::into_inner).granted.take()
    }

    /// Completes when the store has said something, and tells it once. Cancel safe.
    pub(crate) async fn word(&self) -> Word {
        loop {
            {
                let mut told = self.slot.told.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(waiters) = told.granted.take() {
                    return Word::Granted(waiters);
                }
                if std::mem::take(&mut told.ask) {
                    return Word::Ask;
                }
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
        assert_eq!(first.word().await, Word::Granted(3), "told before anybody waited for it");
        let nothing = tokio::time::timeout(Duration::from_secs(1), first.word()).await;
        assert!(nothing.is_err(), "told once");
        waits.ask();
        assert_eq!((first.word().await, second.word().await), (Word::Ask, Word::Ask));
        drop(first);
        waits.granted(one, 0);
        drop(second);
        assert!(waits.is_empty());
    }
}
