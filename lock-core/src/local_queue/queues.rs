//! The queues of all keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::futures::Notified;

use super::handoff::Handoff;
use super::key_queue::{Effects, KeyQueue, Passed, Reclaimed};
use super::last_answer::LastAnswer;
use super::lingering_keys::LingeringKeys;
use super::recently_held::RecentlyHeld;
use super::reclaim::ReclaimSignal;
use super::shards::SHARDS;
use super::waiter_node::WaiterNode;
use crate::backend::{Capability, Claim};
use crate::clock::{Clock, Moment};
use crate::key::{Key, KeyMap};
use crate::owner::Owner;
use crate::pending::{FreedKeys, LeftEntry};
use crate::sync::{Mutex, MutexGuard};

type Shard = KeyMap<KeyQueue>;

/// The destination of a grant that is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandedOff {
    /// It goes back to the store.
    No,
    /// It stays in this process.
    Stays,
    /// It stays, and the caller asks the store whether others wait, and [notes](LocalQueue::answered) the answer.
    Asks,
}

/// The waiters of one manager, by key.
#[derive(Debug)]
pub(crate) struct LocalQueue {
    shards: [Mutex<Shard>; SHARDS],
    /// The number of queues. While it is zero, no look-up is needed: a key without waiters costs one load.
    queues: AtomicUsize,
    recently_held: RecentlyHeld,
    pub(super) signal: ReclaimSignal,
    pub(super) lingering: LingeringKeys,
    /// Whether the store notifies a holder of waiters elsewhere. If not, others may wait at any time.
    tells_holder: bool,
    /// Whether the store has no queue, so that the head retries without a notification.
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

    /// Changes the queue of `key`, if there is one, and removes it when it is no longer needed.
    pub(super) fn with<T>(&self, key: &Key, change: impl FnOnce(&mut KeyQueue) -> T) -> Option<T> {
        if self.queues.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut shard = self.shard(key);
        let queue = shard.get_mut(key)?;
        let answer = change(queue);
        // This is under the same lock: a waiter that joins finds the old queue with its state, or makes a new one.
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

    /// Returns whether `key` has waiters in this process, or a holder that the queue knows.
    pub(crate) fn is_busy(&self, key: &Key) -> bool {
        self.with(key, |queue| queue.is_busy()).unwrap_or(false)
    }

    /// Notes that a request for a grant of `key` that may linger is about to be sent.
    pub(super) fn expect(&self, key: &Key) {
        self.queue(&mut self.shard(key), key).expect();
    }

    /// Joins the queue of `key` at `now`, after the present waiters. `Err` has their number, if it is `max` or more.
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
            // A head that is not polled must not keep a newcomer from asking.
            queue.skip_stalled(now, &mut effects);
            waiting = queue.waiting();
            // A head that retries by itself may do so seldom while it is alone, so it is notified.
            alone = queue.head().filter(|_| waiting == 1 && self.polls);
        }
        let (node, lingered) = (waiting < max).then(|| self.queue(&mut shard, key).join(ttl, now)).unzip();
        // A waker may drop the future of another waiter, which leaves the queue and so acquires this lock.
        drop(shard);
        if let Some(head) = alone.filter(|_| node.is_some()) {
            head.notify();
        }
        self.gave_lingering(lingered.unwrap_or(false));
        self.carry_out(effects);
        node.ok_or(waiting)
    }

    /// Adds a waiter that was skipped, and is polled again, at the end.
    pub(super) fn rejoin(&self, key: &Key, node: &Arc<WaiterNode>) {
        let now = self.clock.now();
        let lingered = self.queue(&mut self.shard(key), key).rejoin(node, now);
        self.gave_lingering(lingered);
    }

    /// Notes that a waiter that joined got the lingering grant. It takes the grant at once, if it is polled.
    fn gave_lingering(&self, gave: bool) {
        if gave {
            self.lingering.ended();
            self.signal.raise();
        }
    }

    /// Returns the queue of `key`, made if there is none.
    fn queue<'s>(&self, shard: &'s mut Shard, key: &Key) -> &'s mut KeyQueue {
        shard.entry(key.clone()).or_insert_with(|| {
            self.queues.fetch_add(1, Ordering::AcqRel);
            KeyQueue::default()
        })
    }

    /// Hands the grant of `owner`, which releases `key`, off to the next waiter, or keeps it for `linger` without a
    /// waiter. The grant goes back to the store if there is no waiter and it does not linger, if others wait elsewhere,
    /// if there is no `handoff`, or if another owner has the key through this queue.
    ///
    /// `now` reads the clock, if there may be a waiter. `handoff` makes the hand-off for a waiter that requests a lease
    /// of this length; `None`: the grant lingers. It runs under the lock of the queue, and must not use it. `may_ask`
    /// says whether the caller can [ask](HandedOff::Asks) the store for waiters elsewhere.
    pub(crate) fn hand_off(
        &self,
        key: &Key,
        owner: Owner,
        linger: Option<Duration>,
        now: impl FnOnce() -> Moment,
        handoff: impl FnOnce(Option<Duration>, Moment) -> Option<Handoff>,
        may_ask: impl FnOnce() -> bool,
    ) -> HandedOff {
        // A waiter that joins after this load then asks the store, and relies on no hand-off of this holder.
        if self.queues.load(Ordering::Acquire) == 0 {
            return HandedOff::No;
        }
        let (now, mut effects, mut asks) = (now(), Effects::default(), false);
        let passed = self.with(key, |queue| {
            // This comes before the hand-off, which a waiter that is not polled would keep for 250 ms.
            queue.skip_stalled(now, &mut effects);
            if !self.tells_holder {
                // Others may wait elsewhere at any time, so each process ends its hand-offs after a quantum.
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

    /// Notes the answer, at `now`, whether others wait for `key`, which `owner` holds. The request `took` this long.
    pub(crate) fn answered(&self, key: &Key, others_wait: bool, owner: Owner, took: Duration, now: Moment) {
        self.with(key, |queue| queue.answered(others_wait, owner, took, now));
    }

    /// Hands `handoff` off to the next waiter, because its own waiter was dropped, or is not polled.
    pub(super) fn pass_on(&self, handoff: Handoff) {
        if handoff.is_too_late() {
            // The hand-off is dropped here, and so released: a shutdown waits for releases, and not for another holder.
            return;
        }
        let Claim { key, owner, .. } = &handoff.claim();
        let (key, owner) = (key.clone(), *owner);
        let mut handoff = Some(handoff);
        // A hand-off without a taker is dropped here, and so goes back to the store.
        self.hand_off(&key, owner, None, || self.clock.now(), |_, _| handoff.take(), || false);
    }

    /// Notes that `owner`, of this process, released `key` to the store, or lost it. The head asks.
    pub(crate) fn freed(&self, key: &Key, owner: Owner) {
        if self.queues.load(Ordering::Acquire) == 0 {
            return;
        }
        let now = self.clock.now();
        // The signal is raised as after a hand-off: a head that is not polled would not send the request.
        if let Some(head) = self.with(key, |queue| queue.freed(owner, now)).flatten() {
            head.notify();
            self.signal.raise();
        }
    }

    /// Notes a waiter elsewhere for `key`, which this process holds.
    pub(crate) fn contended(&self, key: &Key) {
        let now = self.clock.now();
        // Without a queue the note is dropped. A waiter that joins later learns from the answer of the store that
        // others wait.
        let lingering = self.with(key, |queue| {
            queue.contend(now);
            queue.take_lingering().map(|handoff| self.ended(handoff))
        });
        // The grant is dropped here, outside the lock, and so released: the waiter elsewhere gets it now.
        drop(lingering);
    }

    /// Wakes every waiter. Waiters that were skipped, or handed a grant, have been notified, and check when they are
    /// polled.
    pub(crate) fn wake_all(&self) {
        // Each lock is acquired, even if the number of queues is zero: a waiter that joins later sees why all are
        // woken.
        for shard in &self.shards {
            let waiting: Vec<_> = shard.lock().values().flat_map(KeyQueue::nodes).collect();
            // This runs outside of the locks: a waker may run code of the application.
            waiting.into_iter().for_each(|node| node.notify());
        }
    }

    /// Counts every key as wanted elsewhere.
    pub(super) fn contend_all(&self, now: Moment) {
        for shard in &self.shards {
            shard.lock().values_mut().for_each(|queue| queue.contend(now));
        }
    }

    /// Returns whether a waiter elsewhere is known.
    #[cfg(test)]
    pub(super) fn is_contended(&self, key: &Key) -> bool {
        self.with(key, |queue| queue.is_contended()).unwrap_or(false)
    }

    /// Skips the heads of the queue of `key` whose futures are not being polled.
    pub(super) fn skip_stalled(&self, key: &Key, now: Moment) {
        let mut effects = Effects::default();
        self.with(key, |queue| queue.skip_stalled(now, &mut effects));
        self.carry_out(effects);
    }

    /// Carries out the work that a change has left, outside of the lock: a waker and the release of a queue entry may
    /// run code of the application.
    #[inline]
    pub(super) fn carry_out(&self, effects: Effects) {
        // Usually there is none.
        if !effects.is_empty() {
            self.carry_out_all(effects);
        }
    }

    fn carry_out_all(&self, effects: Effects) {
        if !effects.notify.is_empty() {
            self.signal.raise();
        }
        effects.notify.into_iter().for_each(|node| node.notify());
        drop(effects.unused);
    }

    /// Returns whether a waiter may have a hand-off that it does not take, so that [`reclaim`](Self::reclaim) is
    /// needed.
    pub(crate) fn needs_reclaim(&self) -> bool {
        self.signal.is_raised()
    }

    /// Completes when a reclaim becomes needed. Enable it before `needs_reclaim`.
    pub(crate) fn reclaim_needed(&self) -> Notified<'_> {
        self.signal.raised()
    }

    /// Takes back hand-offs that waiters have not taken for `patience`, because they are not polled. A hand-off goes to
    /// the next waiter, or to the store.
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
        // This comes after the loop, because each hand-off acquires the lock of its shard again.
        reclaimed.handoffs.drain(..).for_each(|handoff| self.pass_on(handoff));
        self.carry_out(reclaimed.effects);
    }

    pub(super) fn granted(&self, key: &Key, node: &Arc<WaiterNode>, owner: Owner, contended: bool) {
        let now = self.clock.now();
        let contended = contended || !self.tells_holder;
        // Dropping these may send a request to the store, which must not happen under the lock.
        drop(self.with(key, |queue| queue.granted(node, owner, contended, now)));
    }

    /// Removes a waiter, and passes its entry in the store's queue to the next one.
    pub(super) fn leave(&self, key: &Key, node: &Arc<WaiterNode>, entry: Option<LeftEntry>) {
        let (now, mut entry) = (self.clock.now(), Some(entry));
        let effects = self.with(key, |queue| queue.leave(node, entry.take().flatten(), now));
        self.carry_out(effects.unwrap_or_default());
        // The entry is still here if the key no longer has a queue. Dropping it releases it.
        drop(entry);
    }

    /// Notes an answer of the store for the waiters of `key`.
    pub(super) fn note_answer(&self, key: &Key, answer: LastAnswer) {
        self.with(key, |queue| answer.replace(&mut queue.last_answer));
    }

    /// Returns the last answer of the store to the waiters of `key`.
    pub(super) fn last_answer(&self, key: &Key) -> Option<LastAnswer> {
        self.with(key, |queue| queue.last_answer.as_ref().map(LastAnswer::copy)).flatten()
    }

    pub(super) fn is_head(&self, key: &Key, node: &Arc<WaiterNode>) -> bool {
        self.with(key, |queue| queue.is_head(node)).unwrap_or(false)
    }

    /// Returns whether `node` is the first or the second of the queue.
    pub(super) fn is_head_or_next(&self, key: &Key, node: &Arc<WaiterNode>) -> bool {
        self.with(key, |queue| queue.is_head_or_next(node)).unwrap_or(false)
    }

    /// Returns whether `key` was held when it was last tried.
    pub(crate) fn was_held(&self, key: &Key) -> bool {
        self.recently_held.has(key.hash_value())
    }

    /// Remembers whether `key` was held.
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
