//! The state that a quorum keeps for each owner, in addition to the state on the nodes.
//!
//! After a failed attempt, the owner repeats the attempt with the same token. A slow release of the first attempt could
//! then remove a grant of the second attempt, which was already counted as a vote. Therefore this file has one rule:
//! **a node's answer counts for an owner only while no release for that owner can be in flight to that node.** Attempts
//! of one owner on one node, and the releases that clean up after them, run one after another ([`Slot`]). After a
//! release without an answer, the node no longer has a vote for that owner ([`Tracked::is_sure`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::backend::FencingToken;
use crate::clock::Moment;
use crate::owner::Owner;
use crate::sync::{Mutex, MutexGuard, Notify};

/// A ledger with fewer entries than this is not swept.
const SWEEP_FROM: usize = 64;
/// How long an inactive owner is remembered after the end of its lease. No request is in flight for longer than this,
/// even to a server that was stopped for a while.
const GRACE: Duration = Duration::from_secs(60);

/// The owners that have a request in progress, or a state that must be remembered.
#[derive(Debug)]
pub(super) struct OwnerLedger {
    nodes: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug)]
struct Entries {
    map: HashMap<Owner, Arc<Entry>>,
    /// The number of entries at which the next sweep removes the expired entries.
    sweep_at: usize,
}

#[derive(Debug)]
struct Entry {
    owner: Owner,
    nodes: Box<[OnNode]>,
    /// The number of [`Tracked`] values. It increases from 0 only while the ledger is locked.
    users: AtomicUsize,
    /// Wakes the callers that wait for a slot when a slot becomes free.
    freed: Notify,
    /// Whether the owner has released the claim. If so, a grant that arrives later must also be released.
    returned: AtomicBool,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct OnNode {
    /// Whether a [`Slot`] exists. The slot makes attempts of this owner on this node run one after another.
    is_taken: AtomicBool,
    /// The number of releases that were sent and have not been answered.
    unanswered: AtomicUsize,
    /// Whether the owner's release waits for the answer to an attempt. The release then also frees that grant.
    is_followed: AtomicBool,
}

impl OnNode {
    fn is_sure(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) == 0
    }
}

#[derive(Debug)]
struct Memory {
    /// The time after which the entry may be forgotten.
    until: Moment,
    /// The time until which a majority has granted the claim.
    valid: Option<Moment>,
    /// The fencing token for one hand-off of this grant. A majority has stored it.
    fence: Option<Fence>,
}

#[derive(Clone, Copy, Debug)]
struct Fence {
    turn: u64,
    token: FencingToken,
}

impl Memory {
    /// Returns the remaining time, as [`Tracked::left`] does.
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
        // The threshold doubles with the map, so that the average cost of the sweeps for each new owner is small.
        if entries.map.len() >= entries.sweep_at {
            entries.map.retain(|_, entry| entry.is_used() || !entry.is_over(now));
            entries.sweep_at = (2 * entries.map.len()).max(SWEEP_FROM);
        }
        let entry =
            entries.map.entry(owner).or_insert_with(|| Arc::new(Entry::new(owner, self.nodes, until)));
        entry.users.fetch_add(1, Ordering::AcqRel);
        let tracked = Tracked { ledger: Arc::clone(self), entry: Arc::clone(entry) };
        drop(entries);
        // `tracked` counts as a user of the entry, so no sweep removes the entry before its new time is set.
        tracked.entry.memory().until = until;
        tracked
    }

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

    /// Returns whether the entry may be removed with its last [`Tracked`]. An owner that released its claim is never
    /// used again.
    fn is_blank(&self) -> bool {
        // A release without an answer must be remembered, because it may arrive after the owner's next attempt.
        let sure = || self.nodes.iter().all(OnNode::is_sure);
        self.returned.load(Ordering::Acquire) || (sure() && self.memory().valid.is_none())
    }

    fn is_over(&self, now: Moment) -> bool {
        self.is_blank() || self.memory().until.is_past(now)
    }
}

/// A reference to a tracked owner. Dropping the last reference removes the entry if it has no state to remember.
#[derive(Debug)]
pub(super) struct Tracked {
    ledger: Arc<OwnerLedger>,
    entry: Arc<Entry>,
}

impl Tracked {
    /// Waits until earlier requests of this owner to `node` have ended, and returns the slot. This is cancel safe.
    pub(super) async fn slot(&self, node: usize) -> Slot {
        self.entry.freed.until(|| self.free_slot(node)).await
    }

    /// Returns the slot of `node`, or `None` if a request of this owner is in progress there.
    pub(super) fn free_slot(&self, node: usize) -> Option<Slot> {
        let was_taken = self.entry.nodes[node].is_taken.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| Slot { tracked: self.clone(), node })
    }

    /// Returns whether the answers of `node` count for this owner: no release can be in flight to the node.
    pub(super) fn is_sure(&self, node: usize) -> bool {
        self.entry.nodes[node].is_sure()
    }

    /// Records that a release for this owner is about to be sent to `node`.
    pub(super) fn releasing(&self, node: usize) {
        self.entry.nodes[node].unanswered.fetch_add(1, Ordering::AcqRel);
    }

    /// Records that `node` answered a release for this owner. The answer proves nothing about an earlier release, which
    /// may still be in flight over a replaced connection.
    pub(super) fn released(&self, node: usize) {
        let fewer = |count: usize| count.checked_sub(1);
        let _ = self.entry.nodes[node].unanswered.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
    }

    /// Returns whether a request of this owner to `node` is in progress.
    pub(super) fn is_busy(&self, node: usize) -> bool {
        self.entry.nodes[node].is_taken.load(Ordering::Acquire)
    }

    /// Records whether the owner's release to `node` waits for the request that is in progress there.
    pub(super) fn follows(&self, node: usize, is_followed: bool) {
        self.entry.nodes[node].is_followed.store(is_followed, Ordering::Release);
    }

    /// Returns whether a release to `node` waits for the request that is in progress there.
    pub(super) fn is_followed(&self, node: usize) -> bool {
        self.entry.nodes[node].is_followed.load(Ordering::Acquire)
    }

    /// Records that the owner requests the claim.
    pub(super) fn wants(&self) {
        self.entry.returned.store(false, Ordering::Release);
    }

    /// Records that the owner releases the claim.
    pub(super) fn returns(&self) {
        self.entry.returned.store(true, Ordering::Release);
        self.loses();
    }

    /// Records that the owner does not have the grant.
    pub(super) fn loses(&self) {
        let mut memory = self.entry.memory();
        (memory.valid, memory.fence) = (None, None);
    }

    /// Returns whether the owner has released the claim.
    pub(super) fn is_returned(&self) -> bool {
        self.entry.returned.load(Ordering::Acquire)
    }

    /// Returns for how long from `now` on this owner certainly has the grant, or `None` if this is not certain.
    pub(super) fn left(&self, now: Moment) -> Option<Duration> {
        self.entry.memory().left(now)
    }

    /// Returns the fencing token of hand-off number `turn`, if the owner has held the grant without a gap since the
    /// token was made.
    pub(super) fn fence(&self, turn: u64, now: Moment) -> Option<FencingToken> {
        // After a gap in the grant, another owner may already have a larger token.
        self.left(now)?;
        let fence = self.entry.memory().fence?;
        (fence.turn == turn).then_some(fence.token)
    }

    /// Records the fencing token of hand-off number `turn`.
    pub(super) fn set_fence(&self, turn: u64, token: FencingToken) {
        let mut memory = self.entry.memory();
        // The flag is checked under the lock, as in `kept`.
        if !self.is_returned() {
            memory.fence = Some(Fence { turn, token });
        }
    }

    /// Records that a majority granted or renewed the claim until `valid`, after a request that was sent at `sent`.
    pub(super) fn kept(&self, sent: Moment, valid: Moment) {
        let mut memory = self.entry.memory();
        // A renewal that was in flight during the release must not restore the grant. The flag is checked under the
        // lock, so a release after the check waits for the lock and then clears the memory.
        if self.is_returned() {
            return;
        }
        if memory.left(sent).is_none() {
            // The grant had expired before the request was sent. Another owner may have had the key since then, so the
            // old token is not valid.
            (memory.valid, memory.fence) = (None, None);
        }
        // Answers may arrive out of order. A late answer never shortens the validity.
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
        // Meanwhile a new `Tracked` may use the entry, or a new `Tracked` may have been dropped and removed the entry.
        let is_in_map =
            entries.map.get(&self.entry.owner).is_some_and(|entry| Arc::ptr_eq(entry, &self.entry));
        if is_in_map && !self.entry.is_used() && self.entry.is_blank() {
            entries.map.remove(&self.entry.owner);
        }
    }
}

/// The right to send a request of one owner to one node.
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
