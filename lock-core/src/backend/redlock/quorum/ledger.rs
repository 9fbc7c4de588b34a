//! The state that a quorum keeps for each owner, in addition to that of the nodes.
//!
//! An owner that failed asks again with the same token. A slow release that cleans up after its first attempt could
//! then remove the grant of the second attempt, and with it a vote that was counted. Hence the one rule of this file:
//! **a node's answer counts for an owner only while no release for that owner can be on its way to that node.**
//! Attempts of one owner on one node run one after another ([`Slot`]), including the release that cleans up. After
//! a release without an answer the node has no vote for that owner any more ([`Tracked::is_sure`]).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use crate::backend::FencingToken;
use crate::clock::Moment;
use crate::owner::Owner;
use crate::sync::Mutex;

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
    /// Whether the owner released the claim: a grant that arrives later must be released as well.
    returned: AtomicBool,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct OnNode {
    /// The lock that an attempt of this owner on this node holds, so that its attempts run one after another.
    slot: OnceLock<Arc<tokio::sync::Mutex<()>>>,
    /// Whether a release was sent that is not answered yet, or never was.
    unsure: AtomicBool,
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
            entries.map.retain(|_, entry| Arc::strong_count(entry) > 1 || !entry.is_over(now));
            entries.sweep_at = (2 * entries.map.len()).max(SWEEP_FROM);
        }
        let entry =
            entries.map.entry(owner).or_insert_with(|| Arc::new(Entry::new(owner, self.nodes, until)));
        let tracked = Tracked { ledger: Arc::clone(self), entry: Arc::clone(entry) };
        drop(entries);
        // The reference in `tracked` keeps a sweep from removing the entry before its new time is set.
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
        Self { owner, nodes, returned: AtomicBool::new(false), memory }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    /// Returns whether the entry may go with the last [`Tracked`]. An owner that released its claim is never used
    /// again.
    fn is_blank(&self) -> bool {
        // A release without an answer must be remembered, because it may arrive after the owner's next attempt.
        let sure = || self.nodes.iter().all(|node| !node.unsure.load(Ordering::Acquire));
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
    fn slot_of(&self, node: usize) -> &Arc<tokio::sync::Mutex<()>> {
        self.entry.nodes[node].slot.get_or_init(Arc::default)
    }

    /// Waits until the earlier requests of this owner to `node` are done, and returns the slot. Cancel safe.
    pub(super) async fn slot(&self, node: usize) -> Slot {
        let turn = Arc::clone(self.slot_of(node)).lock_owned().await;
        Slot { tracked: self.clone(), node, _turn: turn }
    }

    /// Returns the slot of `node` if no request of this owner is in progress there.
    pub(super) fn free_slot(&self, node: usize) -> Option<Slot> {
        let turn = Arc::clone(self.slot_of(node)).try_lock_owned().ok()?;
        Some(Slot { tracked: self.clone(), node, _turn: turn })
    }

    /// Returns whether the answers of `node` count for this owner: no release can be on its way to it.
    pub(super) fn is_sure(&self, node: usize) -> bool {
        !self.entry.nodes[node].unsure.load(Ordering::Acquire)
    }

    /// Notes that a release for this owner is about to be sent to `node`.
    pub(super) fn releasing(&self, node: usize) {
        self.entry.nodes[node].unsure.store(true, Ordering::Release);
    }

    /// Notes that `node` answered the release.
    pub(super) fn released(&self, node: usize) {
        self.entry.nodes[node].unsure.store(false, Ordering::Release);
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
        let left = self.entry.memory().valid?.remaining(now);
        (!left.is_zero()).then_some(left)
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
        if !self.is_returned() {
            self.entry.memory().fence = Some(Fence { turn, token });
        }
    }

    /// Notes that a majority granted or renewed the claim until `valid`, after a request at `sent`.
    pub(super) fn kept(&self, sent: Moment, valid: Moment) {
        // A renewal that was in flight during the release must not bring the grant back.
        if self.is_returned() {
            return;
        }
        if self.left(sent).is_none() {
            // The grant had expired before the request, and another owner may have had it: an old token is not valid
            // any more.
            self.loses();
        }
        let mut memory = self.entry.memory();
        // Answers may arrive out of order: a late one never shortens the validity.
        let longer = memory.valid.is_none_or(|before| !valid.remaining(before).is_zero());
        if longer {
            memory.valid = Some(valid);
        }
    }
}

impl Clone for Tracked {
    fn clone(&self) -> Self {
        Self { ledger: Arc::clone(&self.ledger), entry: Arc::clone(&self.entry) }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let mut entries = self.ledger.lock();
        // One reference is in the map, and one is this. The map is locked, so no third one can appear meanwhile.
        if Arc::strong_count(&self.entry) == 2 && self.entry.is_blank() {
            entries.map.remove(&self.entry.owner);
        }
    }
}

/// The right to send one node a request of one owner.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) tracked: Tracked,
    pub(super) node: usize,
    _turn: OwnedMutexGuard<()>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::owner::OwnerSource;

    const TTL: Duration = Duration::from_secs(10);

    fn owners<const N: usize>() -> [Owner; N] {
        let source = OwnerSource::new().expect("random bytes");
        std::array::from_fn(|_| source.mint())
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_forgotten_with_its_last_request_unless_there_is_something_to_remember() {
        let (ledger, [owner, other], now) = (OwnerLedger::new(3), owners(), Clock::Tokio.now());
        let tracked = ledger.track(owner, now, TTL);
        let slot = tracked.slot(1).await;
        drop(tracked);
        assert_eq!(ledger.len(), 1, "a request is under way");
        slot.tracked.releasing(1);
        drop(slot);
        assert_eq!(ledger.len(), 1, "a release was not answered");
        assert!(!ledger.track(owner, now, TTL).is_sure(1));
        ledger.track(owner, now, TTL).released(1);
        assert_eq!(ledger.len(), 0);

        let tracked = ledger.track(other, now, TTL);
        tracked.kept(now, now.plus(TTL));
        drop(tracked);
        assert_eq!(ledger.len(), 1, "it has the grant");
        ledger.track(other, now, TTL).returns();
        assert_eq!(ledger.len(), 0, "an owner is never used again after it was given back");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_never_given_back_is_swept() {
        let (ledger, now) = (OwnerLedger::new(3), Clock::Tokio.now());
        let late = now.plus(TTL).plus(GRACE);
        for owner in owners::<100>() {
            ledger.track(owner, now, TTL).releasing(0);
        }
        assert_eq!(ledger.len(), 100);
        for owner in owners::<100>() {
            ledger.track(owner, late, TTL).releasing(0);
        }
        assert_eq!(ledger.len(), 100, "those of the first hundred are over");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_one_owner_to_one_node_go_one_after_another() {
        let (ledger, [owner], now) = (OwnerLedger::new(3), owners(), Clock::Tokio.now());
        let (first, second) = (ledger.track(owner, now, TTL), ledger.track(owner, now, TTL));
        let slot = first.free_slot(0).expect("nobody asks");
        assert!(second.free_slot(0).is_none() && second.free_slot(1).is_some());
        drop(slot);
        assert!(second.free_slot(0).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_known_for_its_turn_and_while_the_grant_is_certainly_ours() {
        let (ledger, [owner], now) = (OwnerLedger::new(3), owners(), Clock::Tokio.now());
        let tracked = ledger.track(owner, now, TTL);
        let token = FencingToken::new(7);
        tracked.kept(now, now.plus(TTL));
        tracked.set_fence(1, token);
        assert_eq!([0, 1, 2].map(|turn| tracked.fence(turn, now)), [None, Some(token), None]);
        tracked.kept(now.plus(TTL / 2), now.plus(TTL * 2));
        tracked.kept(now.plus(TTL / 2), now.plus(TTL));
        assert_eq!(tracked.left(now.plus(TTL)), Some(TTL), "what is late shortens nothing");
        assert_eq!(tracked.fence(1, now.plus(TTL)), Some(token));
        assert_eq!(tracked.fence(1, now.plus(TTL * 2)), None);
        tracked.kept(now.plus(TTL * 3), now.plus(TTL * 4));
        assert_eq!(tracked.fence(1, now.plus(TTL * 3)), None, "it was nobody's for a while, or another's");
    }
}
