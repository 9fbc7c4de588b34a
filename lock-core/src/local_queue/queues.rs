//! Defines [`LocalQueue`]: the queues of all keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::handoff::Handoff;
use super::key_queue::{Effects, KeyQueue, Passed, Reclaimed};
use super::lingering_keys::LingeringKeys;
use super::recently_held::RecentlyHeld;
use super::reclaim::ReclaimSignal;
use super::waiter_node::WaiterNode;
use crate::backend::{Capability, Claim};
use crate::clock::{Clock, Moment};
use crate::key::{Key, KeyMap};
use crate::owner::Owner;
use crate::pending::{FreedKeys, LeftEntry};
use crate::sync::{Mutex, MutexGuard};

type Shard = KeyMap<KeyQueue>;

/// The number of shards of the key map.
const SHARDS: usize = 32;

/// The result of [`LocalQueue::hand_off`]: the destination of a released grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandedOff {
    /// The caller must release the grant at the store.
    No,
    /// The grant stays in this process.
    Stays,
    /// The grant stays in this process. The caller must ask the store whether others wait elsewhere, and
    /// [record](LocalQueue::answered) the answer.
    Asks,
}

/// The waiters of one manager, with one queue for each key.
#[derive(Debug)]
pub(crate) struct LocalQueue {
    shards: [Mutex<Shard>; SHARDS],
    /// The number of queues. While it is zero, no lookup is needed. So without waiters, a release costs only one atomic
    /// load here.
    queues: AtomicUsize,
    recently_held: RecentlyHeld,
    /// Raised while a call of [`reclaim`](Self::reclaim) is needed.
    pub(crate) signal: ReclaimSignal,
    pub(super) lingering: LingeringKeys,
    /// Whether the store notifies a holder when others wait elsewhere. If not, the holder assumes at any time that
    /// others may wait.
    tells_holder: bool,
    /// Whether the head must poll, because the store has no queue.
    polls: bool,
    pub(super) clock: Clock,
}

impl LocalQueue {
    pub(crate) fn new(store: &Capability) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            queues: AtomicUsize::new(0),
            recently_held: RecentlyHeld::default(),
            signal: ReclaimSignal::default(),
            lingering: LingeringKeys::default(),
            tells_holder: store.waiting.tells_holder(),
            polls: !store.waiting.in_order(),
            clock: store.placement.clock(),
        }
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        self.shards[key.shard(SHARDS)].lock()
    }

    /// Applies `change` to the queue of `key`, if there is one. Then removes the queue if it is no longer needed.
    pub(super) fn with<T>(&self, key: &Key, change: impl FnOnce(&mut KeyQueue) -> T) -> Option<T> {
        if self.queues.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut shard = self.shard(key);
        let queue = shard.get_mut(key)?;
        let answer = change(queue);
        // The removal happens under the same lock. So a waiter that joins either finds the old queue with its state, or
        // makes a new queue.
        if queue.is_idle() {
            shard.remove(key);
            self.queues.fetch_sub(1, Ordering::AcqRel);
        }
        Some(answer)
    }

    /// Returns how many tasks of this process wait for `key`.
    pub(crate) fn waiters(&self, key: &Key) -> usize {
        self.with(key, |queue| queue.waiting()).unwrap_or(0)
    }

    /// Returns whether `key` has a waiter, a holder or a lingering grant in the local queue.
    pub(crate) fn is_busy(&self, key: &Key) -> bool {
        self.with(key, |queue| queue.is_busy()).unwrap_or(false)
    }

    /// Records that a request for `key` is about to be sent, and that its grant may linger.
    pub(super) fn expect(&self, key: &Key) {
        self.queue(&mut self.shard(key), key).expect();
    }

    /// Joins the queue of `key` at `now`, after the current waiters. If there are already `max` waiters or more,
    /// returns their number as `Err`.
    pub(super) fn join(
        &self,
        key: &Key,
        max: usize,
        ttl: Duration,
        now: Moment,
    ) -> Result<Arc<WaiterNode>, usize> {
        let mut effects = Effects::default();
        let mut shard = self.shard(key);
        let (mut waiting, mut alone) = (0, None);
        if let Some(queue) = shard.get_mut(key) {
            // A head that is not polled sends no request, and must not keep the new waiter from sending one.
            queue.skip_stalled(now, &mut effects);
            waiting = queue.waiting();
            // While the head is alone, it may pause for long between two requests. The new waiter notifies the head, so
            // that the pauses of the head become shorter.
            alone = queue.head().filter(|_| waiting == 1 && self.polls);
        }
        let (node, lingered) = (waiting < max).then(|| self.queue(&mut shard, key).join(ttl, now)).unzip();
        // The wake-up below happens without the lock. It may drop the future of another waiter, which then leaves the
        // queue and needs the lock.
        drop(shard);
        if let Some(head) = alone.filter(|_| node.is_some()) {
            head.notify();
        }
        self.gave_lingering(lingered.unwrap_or(false));
        self.carry_out(effects);
        node.ok_or(waiting)
    }

    /// Adds a waiter that was skipped, and is polled again, at the end of its queue.
    pub(super) fn rejoin(&self, key: &Key, node: &Arc<WaiterNode>) {
        let now = self.clock.now();
        let lingered = self.queue(&mut self.shard(key), key).rejoin(node, now);
        self.gave_lingering(lingered);
    }

    /// If a joining waiter received the lingering grant (`gave`), records that the grant no longer lingers. Also raises
    /// the signal, because the waiter may not be polled.
    fn gave_lingering(&self, gave: bool) {
        if gave {
            self.lingering.ended();
            self.signal.raise();
        }
    }

    /// Returns the queue of `key`. Makes the queue if it does not exist.
    fn queue<'s>(&self, shard: &'s mut Shard, key: &Key) -> &'s mut KeyQueue {
        shard.entry(key.clone()).or_insert_with(|| {
            self.queues.fetch_add(1, Ordering::AcqRel);
            KeyQueue::default()
        })
    }

    /// Releases the grant of `owner` on `key` within this process. The grant passes to the next waiter. Without a
    /// waiter, it lingers for `linger`. The caller must release the grant at the store if the quantum is over, if
    /// `handoff` returns `None`, if another owner has the key through this queue, or if the grant can neither pass to a
    /// waiter nor linger.
    ///
    /// `now` reads the clock. It is called only if there may be a waiter. `handoff` makes the hand-off. Its first
    /// argument is the lease that the waiter requests, or `None` if the grant lingers. `handoff` runs under the lock of
    /// the queue, and must not use the queue. `may_ask` returns whether the caller can [ask](HandedOff::Asks) the store
    /// whether others wait elsewhere.
    pub(crate) fn hand_off(
        &self,
        key: &Key,
        owner: Owner,
        linger: Option<Duration>,
        now: impl FnOnce() -> Moment,
        handoff: impl FnOnce(Option<Duration>, Moment) -> Option<Handoff>,
        may_ask: impl FnOnce() -> bool,
    ) -> HandedOff {
        // If a waiter joins after this load, it sends a request itself, and does not rely on a hand-off by this holder.
        if self.queues.load(Ordering::Acquire) == 0 {
            return HandedOff::No;
        }
        let (now, mut effects, mut asks) = (now(), Effects::default(), false);
        let passed = self.with(key, |queue| {
            // Stalled heads are skipped before the hand-off, because a waiter that is not polled would delay the
            // hand-off by 250 ms.
            queue.skip_stalled(now, &mut effects);
            if !self.tells_holder {
                // Others may wait elsewhere without a notification, so hand-offs always end after a quantum.
                queue.contend(now);
            }
            asks = !self.tells_holder && queue.may_be_of(owner) && queue.asks_for_others(may_ask, now);
            let passed = queue.pass(owner, linger, asks, |ttl| handoff(ttl, now), now);
            if matches!(passed, Passed::Lingers(..)) {
                self.lingering.began();
            }
            passed
        });
        self.carry_out(effects);
        match passed.unwrap_or(Passed::No) {
            Passed::On(node) => {
                node.notify();
                self.signal.raise();
                if asks { HandedOff::Asks } else { HandedOff::Stays }
            }
            Passed::Lingers(list) => {
                if let Some(until) = list {
                    self.lingering.list(key, until);
                }
                HandedOff::Stays
            }
            Passed::No => HandedOff::No,
        }
    }

    /// Records the store's answer to the question whether others wait for the grant of `owner` on `key`. The answer
    /// arrived at `now`, and the request took `took`.
    pub(crate) fn answered(&self, key: &Key, others_wait: bool, owner: Owner, took: Duration, now: Moment) {
        self.with(key, |queue| queue.answered(others_wait, owner, took, now));
    }

    /// Passes `handoff` on to the next waiter, after the waiter that had received it was dropped or was not polled.
    pub(super) fn pass_on(&self, handoff: Handoff) {
        if handoff.is_too_late() {
            // Dropping the hand-off releases the grant. During a shutdown, a hand-off would make another holder, for
            // which the shutdown would have to wait.
            return;
        }
        let Claim { key, owner, .. } = &handoff.claim();
        let (key, owner) = (key.clone(), *owner);
        let mut handoff = Some(handoff);
        // If there is no next waiter, the hand-off is dropped here, which releases the grant at the store.
        self.hand_off(&key, owner, None, || self.clock.now(), |_, _| handoff.take(), || false);
    }

    /// Records that `owner`, an owner of this process, has released `key` at the store or lost it. The head then sends
    /// a request.
    pub(crate) fn freed(&self, key: &Key, owner: Owner) {
        if self.queues.load(Ordering::Acquire) == 0 {
            return;
        }
        let now = self.clock.now();
        // The signal is raised as after a hand-off. If the head is not polled and sends no request, a reclaim then
        // skips the head.
        if let Some(head) = self.with(key, |queue| queue.freed(owner, now)).flatten() {
            head.notify();
            self.signal.raise();
        }
    }

    /// Records that another process waits for `key`, which this process holds.
    pub(crate) fn contended(&self, key: &Key) {
        let now = self.clock.now();
        // If the key has no queue, the report is ignored. If a waiter joins later, the store's answer to its request
        // reports the waiters elsewhere.
        let lingering = self.with(key, |queue| {
            queue.contend(now);
            queue.take_lingering().map(|handoff| self.ended(handoff))
        });
        // The grant is dropped outside of the lock. This releases it for the waiter in the other process.
        drop(lingering);
    }

    /// Wakes every waiter in a queue. Waiters that were skipped or have received a grant are no longer in a queue. They
    /// were notified at that time, and check their state when they are polled.
    pub(crate) fn wake_all(&self) {
        // Each lock is acquired even if the number of queues is zero. So a waiter that joins after this call sees the
        // change that this call announces.
        for shard in &self.shards {
            let waiting: Vec<_> = shard.lock().values().flat_map(KeyQueue::nodes).collect();
            // The waiters are notified outside of the locks, because a waker may run code of the application.
            waiting.into_iter().for_each(|node| node.notify());
        }
    }

    /// Records for every key with a queue that others may wait elsewhere.
    pub(super) fn contend_all(&self, now: Moment) {
        for shard in &self.shards {
            shard.lock().values_mut().for_each(|queue| queue.contend(now));
        }
    }

    /// Returns whether others are known to wait elsewhere.
    #[cfg(test)]
    pub(super) fn is_contended(&self, key: &Key) -> bool {
        self.with(key, |queue| queue.is_contended()).unwrap_or(false)
    }

    /// Skips the waiters at the front of the queue of `key` whose futures are not being polled.
    pub(super) fn skip_stalled(&self, key: &Key, now: Moment) {
        let mut effects = Effects::default();
        self.with(key, |queue| queue.skip_stalled(now, &mut effects));
        self.carry_out(effects);
    }

    /// Carries out `effects`. Call this without a lock, because a waker or the release of a queue entry may run code of
    /// the application.
    pub(super) fn carry_out(&self, effects: Effects) {
        if !effects.notify.is_empty() {
            self.signal.raise();
        }
        effects.notify.into_iter().for_each(|node| node.notify());
        drop(effects.unused);
    }

    /// Reclaims hand-offs that waiters have not accepted within `patience`, because these waiters are not polled. Each
    /// hand-off passes to the next waiter, or is released at the store.
    pub(crate) fn reclaim(&self, patience: Duration) {
        self.signal.lower();
        let (now, mut reclaimed) = (self.clock.now(), Reclaimed::default());
        for shard in &self.shards {
            if self.queues.load(Ordering::Acquire) == 0 {
                break;
            }
            shard.lock().retain(|_, queue| {
                queue.reclaim(patience, now, &mut reclaimed);
                let ends = queue.is_idle();
                self.queues.fetch_sub(usize::from(ends), Ordering::AcqRel);
                !ends
            });
        }
        if reclaimed.more {
            self.signal.keep();
        }
        // The hand-offs are passed on after the loop, because `pass_on` acquires the lock of a shard.
        reclaimed.handoffs.drain(..).for_each(|handoff| self.pass_on(handoff));
        self.carry_out(reclaimed.effects);
    }

    pub(super) fn granted(&self, key: &Key, node: &Arc<WaiterNode>, owner: Owner, contended: bool) {
        let now = self.clock.now();
        let contended = contended || !self.tells_holder;
        // Dropping an entry may send a request to the store, which must not happen under the lock.
        drop(self.with(key, |queue| queue.granted(node, owner, contended, now)));
    }

    /// Removes a waiter, and passes its entry in the store's queue on to the next waiter.
    pub(super) fn leave(&self, key: &Key, node: &Arc<WaiterNode>, entry: Option<LeftEntry>) {
        let (now, mut entry) = (self.clock.now(), Some(entry));
        let effects = self.with(key, |queue| queue.leave(node, entry.take().flatten(), now));
        self.carry_out(effects.unwrap_or_default());
        // If the key no longer has a queue, the entry was not passed on. Dropping the entry releases it at the store.
        drop(entry);
    }

    /// Returns whether the last request probably found `key` held.
    pub(crate) fn was_held(&self, key: &Key) -> bool {
        self.recently_held.has(key.hash_value())
    }

    /// Records whether `key` was found held.
    pub(crate) fn record_held(&self, key: &Key, held: bool) {
        self.recently_held.set(key.hash_value(), held);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.queues.load(Ordering::Acquire) == 0 && self.shards.iter().all(|shard| shard.lock().is_empty())
    }
}

impl FreedKeys for LocalQueue {
    fn freed(&self, key: &Key, owner: Owner) {
        self.freed(key, owner);
    }
}
