//! Grants that linger: released, and kept for the next holder of this process.
//!
//! A grant that lingers is a [`Handoff`] without a taker, in the queue of its key. It ends when it is taken, when the
//! store notifies the process of a waiter elsewhere, at its time, or with the manager. The renewers end it by time. A
//! busy key lingers after each release, and an entry in a schedule for each would cost more than the release. So a key
//! has one entry, which is moved to the present end only when it comes up.

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

    /// Takes the grant of `key` that lingers, if there is one. The caller is then its holder, and must report its
    /// release to the queue.
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

    /// Returns when [`end_lingering`](Self::end_lingering) is due, by the clock of the schedules.
    pub(crate) fn lingering_due(&self) -> i64 {
        self.lingering.due.load(Ordering::Acquire)
    }

    /// Completes when `lingering_due` becomes earlier. Enable it before you read that.
    pub(crate) fn lingering_due_earlier(&self) -> Notified<'_> {
        self.lingering.earlier.notified()
    }

    /// Releases the grants whose time is over.
    pub(crate) fn end_lingering(&self) {
        let now = self.clock.now();
        if instant(now) < self.lingering_due() {
            return;
        }
        // The reset comes before the check: a grant that begins to linger after the reset lists its own time.
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
                // A key that is held is listed again when it lingers again.
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

    /// Releases all lingering grants, because the manager ends.
    pub(crate) fn end_all_lingering(&self) {
        drop(self.take_all_lingering(|_| true));
    }

    /// Releases the grants that the store has reported as lost.
    pub(crate) fn lose_all_lingering(&self, owners: &HashSet<&Owner>) {
        if !self.lingering.is_empty() {
            drop(self.take_all_lingering(|lingering| owners.contains(&lingering.owner())));
        }
    }

    /// Drops the grant of `key` if it belongs to `owner`: the store no longer has it.
    pub(crate) fn lose_lingering(&self, key: &Key, owner: Owner) {
        if !self.lingering.is_empty() {
            let is_lost = |lingering: &Lingering| lingering.owner() == owner;
            drop(self.with(key, |queue| self.take_if(queue, is_lost)));
        }
    }

    /// Releases all lingering grants, and counts held keys as wanted elsewhere: the store has lost notifications.
    pub(crate) fn missed(&self) {
        let now = self.clock.now();
        self.contend_all(now);
        self.end_all_lingering();
    }

    /// Takes the grants for which `ends` is true. Dropping them releases them, which locks the queues.
    pub(super) fn take_all_lingering(&self, ends: impl Fn(&Lingering) -> bool) -> Vec<Handoff> {
        let keys = self.lingering.keys.lock();
        let take = |(_, key): &(i64, Key)| self.with(key, |queue| self.take_if(queue, &ends)).flatten();
        keys.iter().filter_map(take).collect()
    }

    /// Takes the lingering grant of one queue, if `ends` is true for it.
    fn take_if(&self, queue: &mut KeyQueue, ends: impl FnOnce(&Lingering) -> bool) -> Option<Handoff> {
        let taken = queue.lingering().is_some_and(ends).then(|| queue.take_lingering()).flatten();
        taken.map(|handoff| self.ended(handoff))
    }

    /// Counts a grant that no longer lingers and is about to be released. Call it under the lock of its queue.
    pub(super) fn ended(&self, mut handoff: Handoff) -> Handoff {
        self.lingering.ended();
        handoff.begin_release();
        handoff
    }
}

/// An acquisition whose grant may linger. While it lives, its key has a queue, which notes waiters elsewhere: the
/// notification may overtake the grant.
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

    /// Notes that the store granted the key to `owner`, and whether others wait elsewhere.
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
