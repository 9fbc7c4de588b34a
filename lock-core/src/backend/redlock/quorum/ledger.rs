//! The state that a quorum keeps for each owner, in addition to the state of the nodes.
//!
//! An owner that failed asks again with the same token. A slow release that cleans up after its first attempt could
//! then remove the grant of the second attempt, and with it a vote that was counted. Hence the one rule of this file:
//! **a node's answer counts for an owner only while no release for that owner can be under way to that node.** Attempts
//! of one owner on one node run one after another ([`Slot`]), including the release that cleans up. After a release
//! without an answer the node no longer has a vote for that owner ([`Tracked::is_sure`]).

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::backend::FencingToken;
use crate::clock::Moment;
use crate::owner::Owner;
use crate::sync::{Mutex, MutexGuard, Notify};

/// The size below which a ledger is not swept.
const SWEEP_FROM: usize = 64;
/// The time after the end of its lease for which an inactive owner is remembered: longer than any request is in flight,
/// even to a server that was stopped for a while.
const GRACE: Duration = Duration::from_secs(60);

/// The owners with a request in progress, or with a state that must be remembered.
#[derive(Debug)]
pub(super) struct OwnerLedger {
    nodes: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug)]
struct Entries {
    map: HashMap<Owner, Arc<Entry>>,
    /// The number of entries at which the next sweep removes the expired ones.
    sweep_at: usize,
}

#[derive(Debug)]
struct Entry {
    owner: Owner,
    nodes: Box<[OnNode]>,
    /// The number of [`Tracked`] values. It grows from 0 only while the ledger is locked.
    users: AtomicUsize,
    /// Notified when a slot is free again.
    freed: Notify,
    /// Whether the owner released the claim: a grant that arrives later must be released as well.
    returned: AtomicBool,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct OnNode {
    /// Whether there is a [`Slot`], so that attempts of this owner on this node run one after another.
    is_taken: AtomicBool,
    /// How many releases were sent that are not answered yet, or never were.
    unanswered: AtomicUsize,
    /// Whether the owner's release waits for the answer to an attempt, and frees the grant in it.
    is_followed: AtomicBool,
}

impl OnNode {
    fn is_sure(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) == 0
    }
}

#[derive(Debug)]
struct Memory {
    /// The time from which the entry may be forgotten.
    until: Moment,
    /// The time until which a majority has granted the claim.
    valid: Option<Moment>,
    /// The fencing token of a hand-off of this grant, which a majority has stored.
    fence: Option<Fence>,
}

#[derive(Clone, Copy, Debug)]
struct Fence {
    turn: u64,
    token: FencingToken,
}

impl Memory {
    /// See [`Tracked::left`].
    fn left(&self, now: Moment) -> Option<Duration> {
        let left = self.valid?.remaining(now);
        (!left.is_zero()).then_some(left)
    }
}

impl OwnerLedger {
    pub(super) fn new(nodes: usize) -> Arc<Self> {
        let entries = Entries { map: HashMap::new(), sweep_at: SWEEP_FROM };
        Arc::new(Self { nodes, entries: Mutex::new(entries) })
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    /// Tracks `owner`, which requests a lease of `ttl` at `now`.
    pub(super) fn track(self: &Arc<Self>, owner: Owner, now: Moment, ttl: Duration) -> Tracked {
        let until = now.plus(ttl).plus(GRACE);
        let mut entries = self.lock();
        // The threshold doubles with the map, so that a sweep costs little for each new owner.
        if entries.map.len() >= entries.sweep_at {
            entries.map.retain(|_, entry| entry.is_used() || !entry.is_over(now));
            entries.sweep_at = (2 * entries.map.len()).max(SWEEP_FROM);
        }
        let entry =
            entries.map.entry(owner).or_insert_with(|| Arc::new(Entry::new(owner, self.nodes, until)));
        entry.users.fetch_add(1, Ordering::AcqRel);
        let tracked = Tracked { ledger: Arc::clone(self), entry: Arc::clone(entry) };
        drop(entries);
        // The count of `tracked` keeps a sweep from removing the entry before its new time is set.
        tracked.entry.memory().until = until;
        tracked
    }

    /// Returns how many owners are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().map.len()
    }
}

impl Entry {
    fn new(owner: Owner, nodes: usize, until: Moment) -> Self {
        let nodes = std::iter::repeat_with(OnNode::default).take(nodes).collect();
        let memory = Mutex::new(Memory { until, valid: None, fence: None });
        let (users, freed, returned) = (AtomicUsize::new(0), Notify::new(), AtomicBool::new(false));
        Self { owner, nodes, users, freed, returned, memory }
    }

    fn is_used(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    /// Returns whether the entry may go with the last [`Tracked`]. An owner that released its claim is never used
    /// again.
    fn is_blank(&self) -> bool {
        // A release without an answer must be remembered, because it may arrive after the owner's next attempt.
        let sure = || self.nodes.iter().all(OnNode::is_sure);
        self.returned.load(Ordering::Acquire) || (sure() && self.memory().valid.is_none())
    }

    fn is_over(&self, now: Moment) -> bool {
        self.is_blank() || self.memory().until.is_past(now)
    }
}

/// A reference to a tracked owner. The last one removes the entry, unless it holds a state that must be remembered.
#[derive(Debug)]
pub(super) struct Tracked {
    ledger: Arc<OwnerLedger>,
    entry: Arc<Entry>,
}

impl Tracked {
    /// Waits until the earlier requests of this owner to `node` are done, and returns the slot. Cancel safe.
    pub(super) async fn slot(&self, node: usize) -> Slot {
        loop {
            let mut freed = pin!(self.entry.freed.notified());
            // The waiter is registered before the look, so that no slot that is freed in between is missed.
            freed.as_mut().enable();
            if let Some(slot) = self.free_slot(node) {
                return slot;
            }
            freed.await;
        }
    }

    /// Returns the slot of `node` if no request of this owner is in progress there.
    pub(super) fn free_slot(&self, node: usize) -> Option<Slot> {
        let was_taken = self.entry.nodes[node].is_taken.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| Slot { tracked: self.clone(), node })
    }

    /// Returns whether the answers of `node` count for this owner: no release can be under way to it.
    pub(super) fn is_sure(&self, node: usize) -> bool {
        self.entry.nodes[node].is_sure()
    }

    /// Notes that a release for this owner is about to be sent to `node`.
    pub(super) fn releasing(&self, node: usize) {
        self.entry.nodes[node].unanswered.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that `node` answered one of these releases. The answer says nothing of an earlier release, which may be
    /// under way over a connection that was replaced.
    pub(super) fn released(&self, node: usize) {
        let fewer = |count: usize| count.checked_sub(1);
        let _ = self.entry.nodes[node].unanswered.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
    }

    /// Returns whether a request of this owner to `node` is in progress.
    pub(super) fn is_busy(&self, node: usize) -> bool {
        self.entry.nodes[node].is_taken.load(Ordering::Acquire)
    }

    /// Notes whether the owner's release to `node` waits for the request that is in progress there.
    pub(super) fn follows(&self, node: usize, is_followed: bool) {
        self.entry.nodes[node].is_followed.store(is_followed, Ordering::Release);
    }

    /// Returns whether a release to `node` waits for the request that is in progress there.
    pub(super) fn is_followed(&self, node: usize) -> bool {
        self.entry.nodes[node].is_followed.load(Ordering::Acquire)
    }

    /// Notes that the owner asks for the claim.
    pub(super) fn wants(&self) {
        self.entry.returned.store(false, Ordering::Release);
    }

    /// Notes that the owner releases the claim.
    pub(super) fn returns(&self) {
        self.entry.returned.store(true, Ordering::Release);
        self.loses();
    }

    /// Notes that the owner does not have the grant.
    pub(super) fn loses(&self) {
        let mut memory = self.entry.memory();
        (memory.valid, memory.fence) = (None, None);
    }

    /// Returns whether the owner released the claim.
    pub(super) fn is_returned(&self) -> bool {
        self.entry.returned.load(Ordering::Acquire)
    }

    /// Returns for how long after `now` the grant certainly belongs to this owner; `None` if it may not.
    pub(super) fn left(&self, now: Moment) -> Option<Duration> {
        self.entry.memory().left(now)
    }

    /// Returns the fencing token of hand-off `turn`, if the owner has had the grant without a gap since the token was
    /// made.
    pub(super) fn fence(&self, turn: u64, now: Moment) -> Option<FencingToken> {
        // After a gap in the grant another owner may have a larger token already.
        self.left(now)?;
        let fence = self.entry.memory().fence?;
        (fence.turn == turn).then_some(fence.token)
    }

    /// Notes the fencing token of hand-off `turn`.
    pub(super) fn set_fence(&self, turn: u64, token: FencingToken) {
        let mut memory = self.entry.memory();
        // Checked under the lock, as in `kept`.
        if !self.is_returned() {
            memory.fence = Some(Fence { turn, token });
        }
    }

    /// Notes that a majority granted or renewed the claim until `valid`, after a request at `sent`.
    pub(super) fn kept(&self, sent: Moment, valid: Moment) {
        let mut memory = self.entry.memory();
        // A renewal that was in flight during the release must not bring the grant back. Checked under the lock: a
        // release that comes after the check locks the memory after this, and clears it.
        if self.is_returned() {
            return;
        }
        if memory.left(sent).is_none() {
            // The grant had expired before the request, and another owner may have had it: an old token is no longer
            // valid.
            (memory.valid, memory.fence) = (None, None);
        }
        // Answers may arrive out of order: a late one never shortens the validity.
        let longer = memory.valid.is_none_or(|before| !valid.remaining(before).is_zero());
        if longer {
            memory.valid = Some(valid);
        }
    }
}

impl Clone for Tracked {
    fn clone(&self) -> Self {
        self.entry.users.fetch_add(1, Ordering::AcqRel);
        Self { ledger: Arc::clone(&self.ledger), entry: Arc::clone(&self.entry) }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        // Only the last `Tracked` locks the ledger.
        if self.entry.users.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut entries = self.ledger.lock();
        // Meanwhile a new `Tracked` may use the entry, or have been the last one and removed it.
        let is_in_map =
            entries.map.get(&self.entry.owner).is_some_and(|entry| Arc::ptr_eq(entry, &self.entry));
        if is_in_map && !self.entry.is_used() && self.entry.is_blank() {
            entries.map.remove(&self.entry.owner);
        }
    }
}

/// The right to send one node a request of one owner.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) tracked: Tracked,
    pub(super) node: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let entry = &self.tracked.entry;
        entry.nodes[self.node].is_taken.store(false, Ordering::Release);
        entry.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
