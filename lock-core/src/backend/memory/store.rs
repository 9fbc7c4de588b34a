//! The store: shards of entries, and the calls of the contract over them.

use crate::sync::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use super::entry::{Entry, Verdict};
use super::events::Listeners;
use super::fence;
use super::watch::Watch;
use crate::backend::conflict::{self, Use};
use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, Fencing, FencingToken, Grant, GrantId, LatchState, LatchStep,
    LeaseScope, Listed, Listener, LockInfo, Order, Placement, Released, Renew, Renewal, WAITER_LEASE,
    Waiting,
};
use crate::clock::{Clock, Moment};
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
    listeners: Listeners,
}

pub(super) struct Shard {
    pub(super) entries: HashMap<Key, Entry, RandomState>,
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
        let shards = std::array::from_fn(shard);
        Self(Arc::new(Store { shards, hasher, watchers: AtomicU64::new(0), listeners: Listeners::default() }))
    }

    /// How many keys have an entry, those included that ran out and were not asked for since.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.0.shards.iter().map(|shard| lock(shard).entries.len()).sum()
    }

    /// How many wait for `key`, but for `owner`.
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

    /// How many shards there are.
    pub(super) fn shard_count(&self) -> usize {
        self.0.shards.len()
    }

    /// The number of the shard of `key`.
    pub(super) fn shard_index(&self, key: &Key) -> usize {
        // The map takes its bucket from the low bits of the same hash and its tag from the highest seven.
        (self.0.hasher.hash_one(key) >> 40) as usize % SHARDS
    }

    pub(super) fn shard(&self, place: usize) -> MutexGuard<'_, Shard> {
        lock(&self.0.shards[place])
    }

    /// Changes the entry of `key`, if there is one, and tells whom that concerns.
    pub(super) fn with<T>(&self, key: &Key, now: Moment, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut shard = self.shard(self.shard_index(key));
        let entry = shard.entries.get_mut(key)?;
        let answer = change(entry);
        let events = entry.take_events();
        if entry.is_idle(now) {
            shard.entries.remove(key);
        }
        drop(shard);
        self.0.listeners.send(key, events);
        Some(answer)
    }

    /// As [`with`](Self::with), and makes the entry.
    fn with_new<T>(&self, key: &Key, now: Moment, change: impl FnOnce(&mut Entry) -> T) -> T {
        let mut shard = self.shard(self.shard_index(key));
        shard.sweep(now);
        let entry = shard.entries.entry(key.clone()).or_default();
        let answer = change(entry);
        let events = entry.take_events();
        drop(shard);
        self.0.listeners.send(key, events);
        answer
    }

    fn attempt(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        let now = Clock::Tokio.now();
        let verdict = if claim.more.is_empty() {
            self.with_new(&claim.key, now, |entry| entry.acquire(claim, ask, now, || fence::next(claim)))
        } else {
            self.acquire_all(claim, ask, now)
        };
        match verdict {
            Verdict::Granted { fence, waiters } => {
                let grant = Grant::new(now, claim.ttl).with_fence(Some(fence)).with_waiters(Some(waiters));
                Ok(Attempt::Granted(grant))
            }
            Verdict::Held(held) => Ok(Attempt::Held(held)),
            Verdict::Conflict(in_force) => Err(in_use(&claim.key, in_force, Use::Lock(claim.mode))),
        }
    }

    fn renew_one(&self, claim: &Claim, ttl: Duration, now: Moment) -> Renewal {
        fence::raise(claim);
        let waiters = if claim.more.is_empty() {
            self.with(&claim.key, now, |entry| entry.renew(claim.owner, ttl, now)).flatten()
        } else {
            self.renew_all(claim, ttl, now)
        };
        match waiters {
            Some(waiters) => Renewal::Renewed { sent: now, lease: ttl, waiters: Some(waiters) },
            None => Renewal::NotOwned,
        }
    }

    fn give_back(&self, claim: &Claim, keep_for: Option<Duration>) -> Released {
        let now = Clock::Tokio.now();
        fence::raise(claim);
        if claim.more.is_empty() {
            let released = self.with(&claim.key, now, |entry| entry.release(claim, keep_for, now));
            released.unwrap_or(Released::Expired)
        } else {
            self.release_all(claim, keep_for, now)
        }
    }
}

impl Shard {
    /// Drops the entries that ran out, once the shard has doubled: what nobody asks for again costs no memory, and a
    /// call pays for it with a constant amount of work on average.
    pub(super) fn sweep(&mut self, now: Moment) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| !entry.is_idle(now));
            self.sweep_at = (2 * self.entries.len()).max(SWEEP_FROM);
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock()
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
            several: true,
            latches: true,
            lists: true,
            marks_sent: false,
            waiting: Waiting::Watch {
                order: Order::Arrival { waiter_lease: WAITER_LEASE },
                tells_holder: true,
            },
            fencing: Fencing::Counter,
            lease: LeaseScope::Grant,
            placement: Placement::Embedded,
            min_ttl: Duration::from_millis(1),
            max_ttl: Duration::from_secs(10 * 366 * 24 * 60 * 60),
            keeps_after_release: Some(Duration::from_secs(10 * 366 * 24 * 60 * 60)),
        }
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.attempt(claim, ask)
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let now = Clock::Tokio.now();
        batch.iter().map(|Renew { claim, ttl }| self.renew_one(claim, *ttl, now)).collect()
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        Ok(self.give_back(claim, keep_for))
    }

    fn release_now(&self, claim: &Claim, keep_for: Option<Duration>) -> Option<Released> {
        Some(self.give_back(claim, keep_for))
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        let now = Clock::Tokio.now();
        let fence = if claim.more.is_empty() {
            self.with(&claim.key, now, |entry| entry.fence(claim, now, || fence::next(claim))).flatten()
        } else {
            self.fence_all(claim, now)
        };
        fence.ok_or_else(|| LockError::lost(&claim.key, LossReason::Taken))
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        let now = Clock::Tokio.now();
        if !claim.more.is_empty() {
            let detail = "a claim of several keys is exclusive and cannot be turned into a shared one";
            return Renewal::Unknown(
                LockError::new(LockErrorKind::InvalidRequest, detail).with_key(&claim.key),
            );
        }
        match self.with(&claim.key, now, |entry| entry.downgrade(claim, now)) {
            Some(Ok(Some(waiters))) => {
                Renewal::Renewed { sent: now, lease: claim.ttl, waiters: Some(waiters) }
            }
            Some(Ok(None)) | None => Renewal::NotOwned,
            Some(Err(other)) => {
                Renewal::Unknown(in_use(&claim.key, other, Use::Lock(crate::backend::Mode::Shared)))
            }
        }
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        let now = Clock::Tokio.now();
        let state = match step {
            LatchStep::Set { count: 0, .. } => {
                let detail = "a latch counts down from 1 at least";
                return Err(LockError::new(LockErrorKind::InvalidRequest, detail).with_key(key));
            }
            LatchStep::Set { .. } => self.with_new(key, now, |entry| entry.latch(step, now)),
            LatchStep::CountDown { .. } | LatchStep::Wait { .. } | LatchStep::Look => {
                self.with(key, now, |entry| entry.latch(step, now)).unwrap_or(Ok(LatchState::Unset))
            }
        };
        state.map_err(|in_force| in_use(key, in_force, Use::Latch))
    }

    async fn list(&self, prefix: &str, _foreign: bool, limit: usize) -> Result<Listed> {
        Ok(self.list_locks(prefix, limit))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        Ok(self.inspect_key(key))
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        Ok(self.take_grant(key, id))
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        _background: Option<&tokio::runtime::Handle>,
    ) {
        self.0.listeners.listen(process, listener);
    }

    async fn changed(&self, claim: &Claim) {
        if let Some(watch) = Watch::register(self, claim) {
            watch.ready().await;
        }
    }
}

fn in_use(key: &Key, in_force: Use, asked: Use) -> LockError {
    let detail = conflict::in_use("the key", in_force, asked);
    LockError::new(LockErrorKind::InvalidRequest, detail).with_key(key)
}
