//! Defines [`Memory`], the store. Its entries are in several shards, each with its own mutex.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::entry::Entry;
use super::events;
use crate::backend::listeners::Listeners;
use crate::clock::Moment;
use crate::key::{Key, KeyMap};
use crate::sync::{Mutex, MutexGuard};

const SHARDS: usize = 32;
/// The number of entries below which a shard is not swept.
const SWEEP_FROM: usize = 64;

/// The store inside this process. The [module](super) describes its promises.
///
/// Clones share one store. Managers that must exclude each other need clones of the same `Memory`.
///
/// # Examples
/// ```
/// use lock_core::backend::memory::Memory;
///
/// let store = Memory::new();
/// let same_store = store.clone();
/// # let _ = same_store;
/// ```
#[derive(Clone)]
pub struct Memory(Arc<Store>);

struct Store {
    shards: [Mutex<Shard>; SHARDS],
    watchers: AtomicU64,
    listeners: Listeners,
}

pub(super) struct Shard {
    pub(super) entries: KeyMap<Entry>,
    /// When the shard has this number of entries, its idle entries are dropped again.
    sweep_at: usize,
}

impl Memory {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        let shard = |_| Mutex::new(Shard { entries: KeyMap::default(), sweep_at: SWEEP_FROM });
        let shards = std::array::from_fn(shard);
        Self(Arc::new(Store { shards, watchers: AtomicU64::new(0), listeners: Listeners::default() }))
    }

    /// Returns the number of entries, including idle entries that were not dropped yet.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.0.shards.iter().map(|shard| shard.lock().entries.len()).sum()
    }

    /// Returns the number of entries that are not idle.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        let now = crate::clock::Clock::Tokio.now();
        let of_shard =
            |shard: &Mutex<Shard>| shard.lock().entries.values().filter(|entry| !entry.is_idle(now)).count();
        self.0.shards.iter().map(of_shard).sum()
    }

    /// Returns the number of claims of owners other than `owner` that wait for `key`.
    #[cfg(feature = "testing")]
    pub(crate) fn waiting(&self, key: &Key, owner: crate::owner::Owner) -> usize {
        let shard = self.shard(self.shard_index(key));
        shard.entries.get(key).map_or(0, |entry| entry.waiting(owner))
    }

    pub(super) fn next_watcher(&self) -> u64 {
        self.0.watchers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn listeners(&self) -> &Listeners {
        &self.0.listeners
    }

    pub(super) fn shard_count(&self) -> usize {
        self.0.shards.len()
    }

    pub(super) fn shard_index(&self, key: &Key) -> usize {
        key.shard(SHARDS)
    }

    pub(super) fn shard(&self, place: usize) -> MutexGuard<'_, Shard> {
        self.0.shards[place].lock()
    }

    /// Changes the entry of `key` and delivers the events of the change. Returns `None` if there is no entry.
    pub(super) fn with<T>(&self, key: &Key, now: Moment, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut shard = self.shard(self.shard_index(key));
        let entry = shard.entries.get_mut(key)?;
        let answer = change(entry);
        let events = entry.take_events();
        if entry.is_large() && entry.is_idle(now) {
            shard.entries.remove(key);
        }
        drop(shard);
        events::send(&self.0.listeners, key, events);
        Some(answer)
    }

    /// Changes the entry of `key` and delivers the events of the change. If there is no entry, creates one.
    pub(super) fn with_new<T>(&self, key: &Key, now: Moment, change: impl FnOnce(&mut Entry) -> T) -> T {
        let mut shard = self.shard(self.shard_index(key));
        let answer_of = |entry: &mut Entry| (change(entry), entry.take_events());
        // Looks for an existing entry first, because most keys were claimed before.
        let (answer, events) = match shard.entries.get_mut(key) {
            Some(entry) => answer_of(entry),
            None => {
                shard.sweep(now);
                answer_of(shard.entries.entry(key.clone()).or_default())
            }
        };
        drop(shard);
        events::send(&self.0.listeners, key, events);
        answer
    }
}

impl Shard {
    /// Drops the idle entries whenever the shard has doubled its size. So the memory for keys that are never claimed
    /// again is bounded, and the work for each call is constant on average.
    pub(super) fn sweep(&mut self, now: Moment) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| !entry.is_idle(now));
            self.sweep_at = (2 * self.entries.len()).max(SWEEP_FROM);
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}
