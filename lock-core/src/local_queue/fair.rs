//! The groups of all fair locks: see [`groups`](super::groups).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::groups::Groups;
use super::handoff::Handoff;
use super::key_queue::{Effects, Passed, Reclaimed};
use super::places::Placed;
use super::queues::LocalQueue;
use super::shards::SHARDS;
use super::waiter_node::WaiterNode;
use crate::backend::Held;
use crate::clock::Moment;
use crate::key::Key;
use crate::owner::Owner;
use crate::pending::LeftEntry;

impl LocalQueue {
    /// Looks at the groups of `key`, if there are any.
    pub(super) fn in_groups<T>(&self, key: &Key, look: impl FnOnce(&mut Groups) -> T) -> Option<T> {
        if self.grouped.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.grouped.shards[key.shard(SHARDS)].lock().get_mut(key).map(look)
    }

    /// Changes the groups of `key`, if there are any, and carries out what that leaves to be done.
    fn with_groups<T>(
        &self,
        key: &Key,
        change: impl FnOnce(&mut Groups, Moment, &mut Effects) -> T,
    ) -> Option<T> {
        self.with_groups_at(key, || self.clock.now(), change)
    }

    /// The same, where `now` reads the clock.
    fn with_groups_at<T>(
        &self,
        key: &Key,
        now: impl FnOnce() -> Moment,
        change: impl FnOnce(&mut Groups, Moment, &mut Effects) -> T,
    ) -> Option<T> {
        if self.grouped.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let (now, mut effects) = (now(), Effects::default());
        let mut shard = self.grouped.shards[key.shard(SHARDS)].lock();
        let groups = shard.get_mut(key)?;
        let answer = change(groups, now, &mut effects);
        if groups.is_empty() {
            shard.remove(key);
            self.grouped.count.fetch_sub(1, Ordering::AcqRel);
        }
        // A waker, and the release of a grant or an entry, may take this lock.
        drop(shard);
        self.carry_out(effects);
        Some(answer)
    }

    pub(super) fn join_group(&self, key: &Key, node: &Arc<WaiterNode>) {
        self.change_groups(key, |groups, now, effects| groups.join(node, now, effects));
    }

    /// Adds a waiter that was skipped, and is polled again. `queued`: its claim still is, as this owner.
    pub(super) fn rejoin_group(&self, key: &Key, node: &Arc<WaiterNode>, queued: Option<Owner>) {
        if node.state().skipped {
            self.change_groups(key, |groups, now, effects| groups.rejoin(node, queued, now, effects));
        }
    }

    /// Changes the groups of `key`, made if there are none.
    fn change_groups(&self, key: &Key, change: impl FnOnce(&mut Groups, Moment, &mut Effects)) {
        let (now, mut effects) = (self.clock.now(), Effects::default());
        let mut shard = self.grouped.shards[key.shard(SHARDS)].lock();
        let groups = shard.entry(key.clone()).or_insert_with(|| {
            self.grouped.count.fetch_add(1, Ordering::AcqRel);
            Groups::default()
        });
        change(groups, now, &mut effects);
        if groups.is_empty() {
            shard.remove(key);
            self.grouped.count.fetch_sub(1, Ordering::AcqRel);
        }
        drop(shard);
        self.carry_out(effects);
    }

    /// Returns how many tasks of this process wait for `key` in groups.
    pub(super) fn waiters_in_groups(&self, key: &Key) -> usize {
        self.in_groups(key, |groups| groups.waiting).unwrap_or(0)
    }

    pub(super) fn is_head_of_group(&self, key: &Key, node: &Arc<WaiterNode>) -> bool {
        self.in_groups(key, |groups| groups.is_head(node)).unwrap_or(false)
    }

    /// Has the head of a group give way to a hand-off, if others wait for that grant elsewhere. Returns whether it does.
    pub(super) fn group_gives_way(&self, key: &Key, node: &Arc<WaiterNode>) -> bool {
        self.in_groups(key, |groups| groups.gives_way(node)).unwrap_or(false)
    }

    /// Returns whether the head of a group, which has given way, asks now.
    pub(super) fn group_asks_or_steps_back(&self, key: &Key, node: &Arc<WaiterNode>) -> bool {
        let asks =
            |groups: &mut Groups, now, effects: &mut Effects| groups.asks_or_steps_back(node, now, effects);
        self.with_groups(key, asks).unwrap_or(false)
    }

    /// Notes that the head of a group sends a request.
    pub(super) fn close_group(&self, key: &Key, node: &Arc<WaiterNode>) {
        self.in_groups(key, |groups| groups.close(node));
    }

    /// Notes the answer. Returns `false` where the group must ask again, for a place of its own.
    pub(super) fn group_answered(&self, key: &Key, node: &Arc<WaiterNode>, answer: Placed) -> bool {
        let answered =
            |groups: &mut Groups, now, effects: &mut Effects| groups.answered(node, answer, now, effects);
        self.with_groups(key, answered).unwrap_or(true)
    }

    /// Notes what the store has said to the group of a waiter.
    pub(super) fn group_heard(&self, key: &Key, node: &Arc<WaiterNode>, held: Held) {
        // What it replaces is dropped out of the lock.
        drop(self.in_groups(key, |groups| groups.heard(node, held)));
    }

    /// Returns what the store has said last to the group of a waiter.
    pub(super) fn last_heard_by_group(&self, key: &Key, node: &Arc<WaiterNode>) -> Option<Held> {
        self.in_groups(key, |groups| groups.last_heard(node)).flatten()
    }

    pub(super) fn group_granted(&self, key: &Key, node: &Arc<WaiterNode>, owner: Owner, contended: bool) {
        // Made if there are none: those who stand directly behind this grant are to find it.
        self.change_groups(key, |groups, now, effects| {
            groups.granted(node, owner, contended, now, effects);
        });
    }

    /// Removes a waiter. Returns its entry in the store's queue where nobody shares it.
    pub(super) fn leave_group(
        &self,
        key: &Key,
        node: &Arc<WaiterNode>,
        entry: Option<LeftEntry>,
    ) -> Option<LeftEntry> {
        let mut entry = Some(entry);
        let left = self.with_groups(key, |groups, now, effects| {
            groups.leave(node, entry.take().flatten(), now, effects)
        });
        // Still here if the key has no groups any more.
        left.unwrap_or_else(|| entry.flatten().or_else(|| node.state().entry.take()))
    }

    pub(super) fn skip_stalled_in_groups(&self, key: &Key, node: &Arc<WaiterNode>) {
        self.with_groups(key, |groups, now, effects| groups.skip_stalled_before(node, now, effects));
    }

    /// Hands the grant of `owner`, a fair lock, on to the next of its group, or keeps it for those who ask at this
    /// moment. Returns `false` where it belongs to the store. As [`hand_off`](Self::hand_off) in all else.
    ///
    /// `succession` is the place in the store's queue that its release names for those who wait in its group, if it
    /// names one. It is asked for where others of the group wait, and there is no `handoff`.
    pub(crate) fn hand_off_in_group(
        &self,
        key: &Key,
        owner: Owner,
        now: impl FnOnce() -> Moment,
        handoff: impl FnOnce(Option<Duration>, Moment) -> Option<Handoff>,
        succession: impl FnOnce() -> Option<LeftEntry>,
    ) -> bool {
        let pass = |groups: &mut Groups, now, effects: &mut Effects| {
            groups.pass(owner, |ttl| handoff(ttl, now), succession, now, effects)
        };
        let passed = self.with_groups_at(key, now, pass);
        match passed.unwrap_or(Passed::No) {
            Passed::On(node) => {
                node.notify();
                self.signal.raise();
                true
            }
            Passed::Kept | Passed::Lingers(_) => {
                self.signal.raise();
                true
            }
            Passed::No => false,
        }
    }

    #[cfg(test)]
    pub(super) fn check_groups(&self, key: &Key) {
        self.in_groups(key, |groups| groups.check());
    }

    /// Notes that `owner` released `key` to the store, or lost it.
    pub(super) fn freed_group(&self, key: &Key, owner: Owner) {
        self.with_groups(key, |groups, now, effects| groups.freed(owner, now, effects));
    }

    /// As [`reclaim`](Self::reclaim), of what groups have.
    pub(super) fn reclaim_of_groups(&self, patience: Duration, now: Moment, reclaimed: &mut Reclaimed) {
        for shard in &self.grouped.shards {
            if self.grouped.count.load(Ordering::Acquire) == 0 {
                return;
            }
            shard.lock().retain(|_, groups| {
                groups.reclaim(patience, now, reclaimed);
                let ends = groups.is_empty();
                self.grouped.count.fetch_sub(usize::from(ends), Ordering::AcqRel);
                !ends
            });
        }
    }
}
