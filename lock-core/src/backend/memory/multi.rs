//! Serves claims of several keys: all of the keys or none. Also locks the keys of a watcher, which may be one key.
//!
//! The shards of all keys are locked together, in the order of their numbers, so that two claims never wait for each
//! other's shards. A claim joins the queues of all its keys at the same moment, so that two claims never wait for each
//! other in these queues.

use std::time::Duration;

use super::entry::{Entry, Relation, Verdict};
use super::events::{self, Event};
use super::fence;
use super::store::{Memory, Shard};
use crate::backend::conflict::Use;
use crate::backend::{Ask, Claim, FencingToken, Held, Mode, Released};
use crate::clock::Moment;
use crate::key::Key;
use crate::sync::MutexGuard;

/// The locked entries of all keys of a claim.
pub(super) struct Locked<'a> {
    memory: &'a Memory,
    shards: Vec<(usize, MutexGuard<'a, Shard>)>,
    now: Moment,
}

impl<'a> Locked<'a> {
    pub(super) fn new(memory: &'a Memory, claim: &Claim, now: Moment) -> Self {
        let mut numbers: Vec<_> = claim.keys().map(|key| memory.shard_index(key)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let shards = numbers.into_iter().map(|number| (number, memory.shard(number))).collect();
        let mut locked = Self { memory, shards, now };
        for (_, shard) in &mut locked.shards {
            shard.sweep(now);
        }
        locked
    }

    /// Returns the entry of a key of the claim. Creates the entry if the key has none.
    pub(super) fn entry(&mut self, key: &Key) -> &mut Entry {
        let number = self.memory.shard_index(key);
        let at =
            self.shards.binary_search_by_key(&number, |(number, _)| *number).expect("BUG: it was locked");
        self.shards[at].1.entries.entry(key.clone()).or_default()
    }

    /// Drops idle entries, unlocks the shards, and delivers the events of the changes.
    pub(super) fn finish(mut self, claim: &Claim) {
        let mut events: Vec<(&Key, Vec<Event>)> = Vec::new();
        for key in claim.keys() {
            let now = self.now;
            let entry = self.entry(key);
            events.push((key, entry.take_events()));
            if entry.is_idle(now) {
                let at = self.memory.shard_index(key);
                self.shards.iter_mut().filter(|(number, _)| *number == at).for_each(|(_, shard)| {
                    shard.entries.remove(key);
                });
            }
        }
        // The shards are unlocked before the events are delivered: a listener or a waker may call the store, which
        // locks these shards again.
        drop(self.shards);
        for (key, events) in events {
            events::send(self.memory.listeners(), key, events);
        }
    }

    /// Returns the number of waiting claims at the key with the most waiters.
    fn waiting(&mut self, claim: &Claim) -> usize {
        claim.keys().map(|key| self.entry(key).waiting(claim.owner)).max().unwrap_or(0)
    }

    /// Returns whether the claim holds every key.
    fn owns_all(&mut self, claim: &Claim) -> bool {
        let now = self.now;
        claim.keys().all(|key| self.entry(key).relation(claim, now) == Relation::Owner)
    }

    fn renew(&mut self, claim: &Claim, ttl: Duration) {
        let now = self.now;
        for key in claim.keys() {
            let _ = self.entry(key).renew(claim.owner, ttl, now);
        }
    }

    /// Returns the common token of all keys of the claim. The claim must hold all of them. Makes a new token if the
    /// keys have different tokens, or if the token is from before a hand-off.
    fn fence(&mut self, claim: &Claim) -> FencingToken {
        let first = self.entry(&claim.key).last_fence(claim.owner);
        let one = claim.keys().all(|key| self.entry(key).last_fence(claim.owner) == first);
        match first {
            Some((fence, turn)) if one && claim.handoffs <= turn => fence,
            _ => self.new_fence(claim),
        }
    }

    fn new_fence(&mut self, claim: &Claim) -> FencingToken {
        let fence = fence::next(claim);
        for key in claim.keys() {
            self.entry(key).set_fence(claim, fence);
        }
        fence
    }

    fn acquire(&mut self, claim: &Claim, ask: Ask) -> Verdict {
        let now = self.now;
        let relations: Vec<_> = claim.keys().map(|key| self.entry(key).relation(claim, now)).collect();
        let conflict = |(at, relation): (usize, &Relation)| Some((at, relation.conflict()?));
        if let Some((at, other)) = relations.iter().enumerate().find_map(conflict) {
            for key in claim.keys() {
                self.entry(key).forget_ticket(claim.owner);
            }
            return Verdict::Conflict(at, other);
        }
        if relations.contains(&Relation::Held) {
            return Verdict::Held(self.wait(claim, &relations, ask));
        }
        let fence = fence::next(claim);
        for (key, relation) in claim.keys().zip(&relations) {
            if *relation == Relation::Free {
                self.entry(key).take(claim, fence, now);
            }
        }
        self.renew(claim, claim.ttl);
        // If the keys were acquired one by one, they have different tokens, and the claim gets a larger token.
        Verdict::Granted { fence: self.fence(claim), waiters: self.waiting(claim) }
    }

    /// Returns the answer *held* to the claim, and queues the claim at all keys or at none.
    fn wait(&mut self, claim: &Claim, relations: &[Relation], ask: Ask) -> Held {
        let (now, waiting) = (self.now, self.waiting(claim));
        let ask = match ask {
            Ask::Enqueue { room: Some(room) } if waiting >= room => Ask::Try,
            // `waiting` is the length of the longest queue. If this queue has room, every queue has room.
            Ask::Enqueue { .. } => Ask::Enqueue { room: None },
            Ask::Probe | Ask::Try => ask,
        };
        let mut all = Held { waiters: Some(waiting), ..Held::default() };
        for (key, relation) in claim.keys().zip(relations) {
            let held = self.entry(key).wait(claim, ask, now);
            all.position = all.position.max(held.position);
            all.queued_at = all.queued_at.or(held.queued_at);
            if *relation == Relation::Held {
                all.remaining = all.remaining.max(held.remaining);
                all.own |= held.own;
                if all.key.is_none() {
                    // The answer describes the holder of the key that the answer names.
                    (all.key, all.holder, all.kept) = (Some(key.clone()), held.holder, held.kept);
                }
            }
        }
        all
    }
}

impl Relation {
    fn conflict(&self) -> Option<Use> {
        match *self {
            Self::Conflict(other) => Some(other),
            Self::Owner | Self::Free | Self::Held => None,
        }
    }
}

impl Memory {
    pub(super) fn acquire_all(&self, claim: &Claim, ask: Ask, now: Moment) -> Verdict {
        if claim.mode != Mode::Exclusive {
            return Verdict::Conflict(0, Use::Lock(Mode::Exclusive));
        }
        let mut locked = Locked::new(self, claim, now);
        let verdict = locked.acquire(claim, ask);
        for key in claim.keys() {
            locked.entry(key).settle(now, None);
        }
        locked.finish(claim);
        verdict
    }

    pub(super) fn renew_all(&self, claim: &Claim, ttl: Duration, now: Moment) -> Option<usize> {
        let mut locked = Locked::new(self, claim, now);
        // If the claim has lost one key, the whole claim is lost, and the other keys must not be renewed.
        let waiters = locked.owns_all(claim).then(|| {
            locked.renew(claim, ttl);
            locked.waiting(claim)
        });
        locked.finish(claim);
        waiters
    }

    pub(super) fn fence_all(&self, claim: &Claim, now: Moment) -> Option<FencingToken> {
        let mut locked = Locked::new(self, claim, now);
        let fence = locked.owns_all(claim).then(|| locked.fence(claim));
        locked.finish(claim);
        fence
    }

    /// Releases all keys. Returns [`Released::Released`] if the claim held all of them. Otherwise returns the worst
    /// answer of a single key.
    pub(super) fn release_all(&self, claim: &Claim, keep_for: Option<Duration>, now: Moment) -> Released {
        let mut locked = Locked::new(self, claim, now);
        let released: Vec<_> =
            claim.keys().map(|key| locked.entry(key).release(claim, keep_for, now)).collect();
        locked.finish(claim);
        let worst = [Released::Taken, Released::Expired].into_iter().find(|worst| released.contains(worst));
        worst.unwrap_or(Released::Released)
    }
}
