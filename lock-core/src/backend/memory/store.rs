//! The store: shards of entries, and the calls of the contract over them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use once_cell::sync::Lazy;

use super::state::{Bell, Entry, Verdict};
use super::watch::Watch;
use crate::backend::{
    Attempt, Backend, Capability, Claim, FencingToken, Grant, Mode, Placement, Queue, Released, Renew, Renewal,
};
use crate::clock::{self, Clock, Moment};
use crate::error::{LockError, LockErrorKind, LossReason, Result};
use crate::key::Key;

const SHARDS: usize = 32;
/// A shard smaller than this is not swept.
const SWEEP_FROM: usize = 64;

/// The store inside this process. See the [module](super) for what it promises.
///
/// Clones share one store: managers that are to exclude each other take clones of one `Memory`.
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
    hasher: RandomState,
    watchers: AtomicU64,
}

struct Shard {
    entries: HashMap<Key, Entry, RandomState>,
    /// At how many entries those that ran out are looked for again.
    sweep_at: usize,
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        let hasher = RandomState::new();
        let shard = |_| {
            let entries = HashMap::with_hasher(hasher.clone());
            Mutex::new(Shard { entries, sweep_at: SWEEP_FROM })
        };
        Self(Arc::new(Store { shards: std::array::from_fn(shard), hasher, watchers: AtomicU64::new(0) }))
    }

    /// How many keys have an entry, those included that ran out and were not asked for since.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.0.shards.iter().map(|shard| lock(shard).entries.len()).sum()
    }

    pub(super) fn next_watcher(&self) -> u64 {
        self.0.watchers.fetch_add(1, Ordering::Relaxed)
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        // The map takes its bucket from the low bits of the same hash and its tag from the highest seven.
        let shard = (self.0.hasher.hash_one(key) >> 40) as usize % SHARDS;
        lock(&self.0.shards[shard])
    }

    /// Changes the entry of `key`, if there is one, and wakes whom that concerns.
    pub(super) fn with<T>(&self, key: &Key, now: Moment, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut shard = self.shard(key);
        let entry = shard.entries.get_mut(key)?;
        let answer = change(entry);
        let bells = entry.take_bells();
        if entry.is_idle(now) {
            shard.entries.remove(key);
        }
        drop(shard);
        ring(bells);
        Some(answer)
    }

    fn acquire(&self, claim: &Claim, queues: bool) -> Result<Attempt> {
        let now = Clock::Tokio.now();
        let mut shard = self.shard(&claim.key);
        shard.sweep(now);
        let entry = shard.entries.entry(claim.key.clone()).or_default();
        let verdict = entry.acquire(claim, queues, now, next_fence);
        let bells = entry.take_bells();
        drop(shard);
        ring(bells);
        match verdict {
            Verdict::Granted(fence) => {
                Ok(Attempt::Granted(Grant::new(now, claim.ttl).with_fence(Some(fence))))
            }
            Verdict::Held(held) => Ok(Attempt::Held(held)),
            Verdict::Conflict(in_force) => Err(conflict(claim, in_force)),
        }
    }

    fn give_back(&self, claim: &Claim, keep_for: Option<Duration>) -> Released {
        let now = Clock::Tokio.now();
        self.with(&claim.key, now, |entry| entry.release(claim, keep_for, now)).unwrap_or(Released::Expired)
    }
}

impl Shard {
    /// Drops the entries that ran out, once the shard has doubled: what nobody asks for again costs no memory, and a
    /// call pays for it with a constant amount of work on average.
    fn sweep(&mut self, now: Moment) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| !entry.is_idle(now));
            self.sweep_at = (2 * self.entries.len()).max(SWEEP_FROM);
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ring(bells: Vec<Bell>) {
    for bell in bells {
        bell.notify_one();
    }
}

/// Grows over all keys and stores of the process, and over restarts as long as the wall clock does.
fn next_fence() -> FencingToken {
    static NEXT: Lazy<AtomicU64> =
        Lazy::new(|| AtomicU64::new(u64::try_from(clock::wall().as_micros()).unwrap_or(1)));
    FencingToken::new(NEXT.fetch_add(1, Ordering::Relaxed))
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

impl Backend for Memory {
    fn capability(&self) -> Capability {
        Capability {
            store: "memory",
            shared: true,
            permits: true,
            fifo: true,
            beats: false,
            tells_waiters: false,
            several: false,
            latches: false,
            fencing: true,
            fence_is_time: false,
            notifies: true,
            marks_sent: false,
            placement: Placement::Embedded,
            min_ttl: Duration::from_millis(1),
            max_ttl: Duration::from_secs(10 * 366 * 24 * 60 * 60),
        }
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.acquire(claim, false)
    }

    async fn enqueue(&self, claim: &Claim, _room: Option<usize>) -> Result<Attempt> {
        self.acquire(claim, claim.queue == Queue::Fifo)
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let now = Clock::Tokio.now();
        let renew = |Renew { claim, ttl }: &Renew<'_>| match self
            .with(&claim.key, now, |entry| entry.renew(claim.owner, *ttl, now))
        {
            Some(true) => Renewal::Renewed { sent: now, waiters: None },
            Some(false) | None => Renewal::NotMine,
        };
        batch.iter().map(renew).collect()
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        Ok(self.give_back(claim, keep_for))
    }

    fn release_now(&self, claim: &Claim, keep_for: Option<Duration>) -> Option<Released> {
        Some(self.give_back(claim, keep_for))
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        let now = Clock::Tokio.now();
        let fence = self.with(&claim.key, now, |entry| entry.fence(claim.owner, now)).flatten();
        fence.ok_or_else(|| LockError::lost(&claim.key, LossReason::Taken))
    }

    async fn changed(&self, claim: &Claim) {
        if let Some(watch) = Watch::register(self, claim) {
            watch.turn().await;
        }
    }
}

fn conflict(claim: &Claim, in_force: Mode) -> LockError {
    let (in_force, asked) = (name(in_force), name(claim.mode));
    let detail = format!(
        "the key is in use as {in_force} and was asked for as {asked}; use one kind of lock, with one number of permits, \
         per key"
    );
    LockError::new(LockErrorKind::InvalidRequest, detail).with_key(&claim.key)
}

fn name(mode: Mode) -> Cow<'static, str> {
    match mode {
        Mode::Exclusive => "an exclusive lock".into(),
        Mode::Shared => "a shared lock".into(),
        Mode::Permit { of } => format!("a semaphore of {of} permits").into(),
    }
}
