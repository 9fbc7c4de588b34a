//! Handles lingering grants. A lingering grant was released by its holder, and this process keeps it for the next
//! holder.
//!
//! A lingering grant is a [`Handoff`] in the queue of its key that no waiter has accepted yet. The grant stops
//! lingering when a waiter accepts it, when the store reports a waiter in another process, when its time is over, or
//! when the manager ends. The renewers check the time. On a busy key a grant lingers after each release, and a schedule
//! entry for each of these grants would cost more than the release. So each key has only one entry. When the entry is
//! due and a later grant lingers, the entry moves to the time at which that grant stops lingering.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use tokio::sync::futures::Notified;

use super::handoff::Handoff;
use super::key_queue::KeyQueue;
use super::lingering_keys::{Lingering, instant};
use super::queues::LocalQueue;
use crate::key::Key;
use crate::owner::Owner;

impl LocalQueue {
    /// Returns whether a grant of `key` lingers.
    #[cfg(test)]
    pub(crate) fn lingers(&self, key: &Key) -> bool {
        !self.lingering.is_empty() && self.with(key, |queue| queue.lingering().is_some()).unwrap_or(false)
    }

    /// Takes the lingering grant of `key`, if there is one. The caller becomes the holder, and must report the release
    /// of the grant to the queue.
    pub(crate) fn take_lingering(&self, key: &Key) -> Option<Handoff> {
        if self.lingering.is_empty() {
            return None;
        }
        self.with(key, |queue| {
            let taken = queue.take_lingering()?;
            self.lingering.ended();
            queue.hold(taken.claim().owner);
            Some(taken)
        })
        .flatten()
    }

    /// Returns when the next call of [`end_lingering`](Self::end_lingering) is due, by the clock of the schedules.
    pub(crate) fn lingering_due(&self) -> i64 {
        self.lingering.due.load(Ordering::Acquire)
    }

    /// Completes when `lingering_due` becomes earlier. Enable this future before you read `lingering_due`.
    pub(crate) fn lingering_due_earlier(&self) -> Notified<'_> {
        self.lingering.earlier.notified()
    }

    /// Releases the lingering grants whose time is over.
    pub(crate) fn end_lingering(&self) {
        let now = self.clock.now();
        if instant(now) < self.lingering_due() {
            return;
        }
        // The reset comes before the check. If a grant begins to linger after the reset, `list` sets the due time
        // again.
        self.lingering.due.store(i64::MAX, Ordering::Release);
        let mut ended = Vec::new();
        let mut keys = self.lingering.keys.lock();
        while let Some((due, key)) = keys.pop_first() {
            if due > instant(now) {
                self.lingering.due.fetch_min(due, Ordering::AcqRel);
                keys.insert((due, key));
                break;
            }
            let over = |lingering: &Lingering| instant(lingering.until) <= instant(now);
            let again = self.with(&key, |queue| {
                if queue.listed() != Some(due) {
                    return None;
                }
                ended.extend(self.take_if(queue, over));
                // If no grant of the key lingers now, the next one that lingers lists the key again.
                queue.set_listed(queue.lingering().map(|lingering| instant(lingering.until)));
                queue.listed()
            });
            if let Some(until) = again.flatten() {
                keys.insert((until, key));
            }
        }
        drop(keys);
        drop(ended);
    }

    /// Releases all lingering grants.
    pub(crate) fn end_all_lingering(&self) {
        drop(self.take_all_lingering(|_| true));
    }

    /// Releases the lingering grants of `owners`, which the store has reported as lost.
    pub(crate) fn lose_all_lingering(&self, owners: &HashSet<&Owner>) {
        if !self.lingering.is_empty() {
            drop(self.take_all_lingering(|lingering| owners.contains(&lingering.owner())));
        }
    }

    /// Drops the lingering grant of `key` if it belongs to `owner`. The store no longer has this grant.
    pub(crate) fn lose_lingering(&self, key: &Key, owner: Owner) {
        if !self.lingering.is_empty() {
            let is_lost = |lingering: &Lingering| lingering.owner() == owner;
            drop(self.with(key, |queue| self.take_if(queue, is_lost)));
        }
    }

    /// Records for every key with a queue that others may wait, and releases all lingering grants. Call this if
    /// notifications of the store may be lost.
    pub(crate) fn missed(&self) {
        let now = self.clock.now();
        self.contend_all(now);
        self.end_all_lingering();
    }

    /// Takes the lingering grants for which `ends` returns true. Drop them outside of the queues' locks, because the
    /// release locks the queues.
    pub(super) fn take_all_lingering(&self, ends: impl Fn(&Lingering) -> bool) -> Vec<Handoff> {
        let keys = self.lingering.keys.lock();
        let take = |(_, key): &(i64, Key)| self.with(key, |queue| self.take_if(queue, &ends)).flatten();
        keys.iter().filter_map(take).collect()
    }

    /// Takes the lingering grant of one queue, if `ends` returns true for it.
    fn take_if(&self, queue: &mut KeyQueue, ends: impl FnOnce(&Lingering) -> bool) -> Option<Handoff> {
        let taken = queue.lingering().is_some_and(ends).then(|| queue.take_lingering()).flatten();
        taken.map(|handoff| self.ended(handoff))
    }

    /// Records that a grant no longer lingers and is about to be released. Call this under the lock of its queue.
    pub(super) fn ended(&self, mut handoff: Handoff) -> Handoff {
        self.lingering.ended();
        handoff.begin_release();
        handoff
    }
}

/// An acquisition whose grant may linger. While this value exists, its key has a queue. The queue records that others
/// wait elsewhere, even if the notification arrives before the grant.
#[derive(Debug)]
pub(crate) struct Expected<'a> {
    local_queue: &'a LocalQueue,
    key: Key,
}

impl<'a> Expected<'a> {
    pub(crate) fn new(local_queue: &'a LocalQueue, key: &Key) -> Self {
        local_queue.expect(key);
        Self { local_queue, key: key.clone() }
    }

    /// Records that the store granted the key; see [`KeyQueue::granted_here`].
    pub(crate) fn granted(&self, owner: Owner, contended: bool) {
        let now = self.local_queue.clock.now();
        self.local_queue.with(&self.key, |queue| queue.granted_here(owner, contended, now));
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.local_queue.with(&self.key, KeyQueue::no_more_expected);
    }
}
