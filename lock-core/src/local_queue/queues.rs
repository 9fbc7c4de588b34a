//! The queues of all keys.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::sync::futures::Notified;

use super::handoff::Handoff;
use super::key_queue::{After, KeyQueue, Unheard};
use super::recently_held::RecentlyHeld;
use super::unheard::Open;
use super::waiter_node::WaiterNode;
use crate::backend::Capability;
use crate::clock::{Clock, Moment};
use crate::key::Key;
use crate::pending::{FreedKeys, PendingClaim};
use crate::sync::Mutex;

const SHARDS: usize = 32;

type Shard = HashMap<Key, KeyQueue>;

/// All queues of one manager.
#[derive(Debug)]
pub(crate) struct LocalQueue {
    shards: [Mutex<Shard>; SHARDS],
    hasher: std::hash::RandomState,
    /// How many queues there are; while it is zero, nothing need be looked up.
    queues: AtomicUsize,
    recently_held: RecentlyHeld,
    /// Whether somebody was told something that may be unheard.
    open: Open,
    /// Whether the store tells when somebody waits elsewhere; where it does not, somebody always may.
    told: bool,
    /// Whether the store has no queue, so that the head tries again by itself.
    polls: bool,
    clock: Clock,
}

impl LocalQueue {
    pub(crate) fn new(store: &Capability) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        let hasher = std::hash::RandomState::new();
        let (queues, recently_held, open) = (AtomicUsize::new(0), RecentlyHeld::default(), Open::default());
        let (told, polls, clock) =
            (store.waiting.tells_holder(), !store.waiting.in_order(), store.placement.clock());
        Self { shards, hasher, queues, recently_held, open, told, polls, clock }
    }

    fn shard(&self, key: &str) -> MutexGuard<'_, Shard> {
        #[allow(clippy::cast_possible_truncation, reason = "the low bits choose the shard")]
        let index = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[index].lock()
    }

    /// Changes the queue of `key`, if there is one, and removes it when nobody needs it any more.
    fn with<T>(&self, key: &str, change: impl FnOnce(&mut KeyQueue) -> T) -> Option<T> {
        if self.queues.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut shard = self.shard(key);
        let queue = shard.get_mut(key)?;
        let answer = change(queue);
        if queue.is_idle() {
            shard.remove(key);
            self.queues.fetch_sub(1, Ordering::AcqRel);
        }
        Some(answer)
    }

    /// How many tasks of this process wait for `key`.
    pub(crate) fn waiters(&self, key: &Key) -> usize {
        self.with(key.as_str(), |queue| queue.waiting()).unwrap_or(0)
    }

    /// Whether somebody of this process waits for `key`, or holds it and had to wait.
    pub(crate) fn is_busy(&self, key: &Key) -> bool {
        self.with(key.as_str(), |_| ()).is_some()
    }

    /// Joins the queue for `key`, behind those who wait already; `Err` says how many they are, if they are `max` or more.
    pub(super) fn join(&self, key: &Key, max: usize, ttl: Duration) -> Result<Arc<WaiterNode>, usize> {
        let (now, mut after) = (self.clock.now(), After::default());
        let mut shard = self.shard(key.as_str());
        let (mut waiting, mut alone) = (0, None);
        if let Some(queue) = shard.get_mut(key.as_str()) {
            // A head that nobody polls must not keep a newcomer from asking.
            queue.skip_stalled(now, &mut after);
            waiting = queue.waiting();
            // A head that tries again by itself may do so seldom as long as it is alone.
            alone = queue.head().filter(|_| waiting == 1 && self.polls);
        }
        let node = (waiting < max).then(|| self.queue(&mut shard, key).join(ttl, now));
        drop(shard);
        if let Some(head) = alone.filter(|_| node.is_some()) {
            head.ring();
        }
        self.after(after);
        node.ok_or(waiting)
    }

    /// Lines one up at the end that was passed over, and is polled again.
    pub(super) fn rejoin(&self, key: &Key, node: &Arc<WaiterNode>) {
        self.queue(&mut self.shard(key.as_str()), key).rejoin(node);
    }

    /// The queue of `key`, made if there is none.
    fn queue<'s>(&self, shard: &'s mut Shard, key: &Key) -> &'s mut KeyQueue {
        shard.entry(key.clone()).or_insert_with(|| {
            self.queues.fetch_add(1, Ordering::AcqRel);
            KeyQueue::default()
        })
    }

    /// Gives the grant of a holder that releases `key` to the next in queue. `false` where nobody waits, where others have
    /// waited elsewhere for long enough, or where there is no `turn` to give: then the grant belongs to the store.
    ///
    /// `turn` makes it for one who asks for such a lease, and must not use the queue.
    pub(crate) fn hand_off(&self, key: &Key, handoff: impl FnOnce(Duration) -> Option<Handoff>) -> bool {
        if self.queues.load(Ordering::Acquire) == 0 {
            return false;
        }
        let (now, mut after) = (self.clock.now(), After::default());
        let next = self.with(key.as_str(), |queue| {
            if !self.told {
                queue.contend(now);
            }
            queue.skip_stalled(now, &mut after);
            queue.hand_off(handoff, now)
        });
        self.after(after);
        match next.flatten() {
            Some(node) => {
                node.ring();
                self.open.tell();
                true
            }
            None => false,
        }
    }

    /// Hands `handoff` off to the next in the queue, because its waiter is gone, or not polled.
    pub(super) fn pass_on(&self, handoff: Handoff) {
        if handoff.is_too_late() {
            return;
        }
        let key = handoff.key().clone();
        let mut handoff = Some(handoff);
        // What is left of it here goes back to the store as it is dropped.
        self.hand_off(&key, |_| handoff.take());
    }

    /// A guard of this process gave `key` back to the store, or lost it: the head may ask.
    pub(crate) fn freed(&self, key: &Key) {
        if self.queues.load(Ordering::Acquire) == 0 {
            return;
        }
        let now = self.clock.now();
        if let Some(head) = self.with(key.as_str(), |queue| queue.freed(now)).flatten() {
            head.ring();
            self.open.tell();
        }
    }

    /// Somebody waits elsewhere for `key`, which this process holds.
    pub(crate) fn contended(&self, key: &str) {
        let now = self.clock.now();
        self.with(key, |queue| queue.contend(now));
    }

    /// Whether somebody is known to wait elsewhere.
    #[cfg(test)]
    pub(super) fn is_contended(&self, key: &Key) -> bool {
        self.with(key.as_str(), |queue| queue.is_contended()).unwrap_or(false)
    }

    /// Passes over a head that nobody polls.
    pub(super) fn skip_stalled(&self, key: &Key, now: Moment) {
        let mut after = After::default();
        self.with(key.as_str(), |queue| queue.skip_stalled(now, &mut after));
        self.after(after);
    }

    fn after(&self, after: After) {
        if !after.ring.is_empty() {
            self.open.tell();
        }
        after.ring.into_iter().for_each(|node| node.ring());
        drop(after.unused);
    }

    /// Whether somebody was told something that may be unheard, so that a [look](Self::look) is worth it.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_told()
    }

    /// Completes when that changes. Enable it before asking whether it has.
    pub(crate) fn opens(&self) -> Notified<'_> {
        self.open.rung()
    }

    /// Takes back what was told to waiters and not heard for `patience`, because nobody polls them: a turn goes to the next,
    /// or to the store.
    pub(crate) fn look(&self, patience: Duration) {
        self.open.begin();
        let (now, mut found) = (self.clock.now(), Unheard::default());
        for shard in &self.shards {
            if self.queues.load(Ordering::Acquire) == 0 {
                break;
            }
            shard.lock().retain(|_, queue| {
                queue.take_back(patience, now, &mut found);
                let ends = queue.is_idle();
                self.queues.fetch_sub(usize::from(ends), Ordering::AcqRel);
                !ends
            });
        }
        if found.open {
            self.open.stays();
        }
        found.handoffs.drain(..).for_each(|handoff| self.pass_on(handoff));
        self.after(found.after);
    }

    pub(super) fn granted(&self, key: &Key, node: &Arc<WaiterNode>, contended: bool) {
        let now = self.clock.now();
        let contended = contended || !self.told;
        // What is dropped here may ask the store, and must not do so under the lock.
        drop(self.with(key.as_str(), |queue| queue.granted(node, contended, now)));
    }

    pub(super) fn leave(&self, key: &Key, node: &Arc<WaiterNode>, entry: Option<PendingClaim>) {
        let (now, mut entry) = (self.clock.now(), Some(entry));
        let after = self.with(key.as_str(), |queue| queue.leave(node, entry.take().flatten(), now));
        self.after(after.unwrap_or_default());
        drop(entry);
    }

    pub(super) fn is_head(&self, key: &Key, node: &Arc<WaiterNode>) -> bool {
        self.with(key.as_str(), |queue| queue.is_head(node)).unwrap_or(false)
    }

    /// Whether `key` was held when it was last tried.
    pub(crate) fn was_held(&self, key: &Key) -> bool {
        self.recently_held.has(self.hasher.hash_one(key.as_str()))
    }

    /// Remembers whether `key` was held.
    pub(crate) fn record_held(&self, key: &Key, held: bool) {
        self.recently_held.set(self.hasher.hash_one(key.as_str()), held);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.queues.load(Ordering::Acquire) == 0 && self.shards.iter().all(|shard| shard.lock().is_empty())
    }
}

impl FreedKeys for LocalQueue {
    fn freed(&self, key: &Key) {
        self.freed(key);
    }
}
