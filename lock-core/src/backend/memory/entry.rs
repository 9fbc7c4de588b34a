//! The state of one key: its holders and its waiters. Each call gets the current time as an argument.

use std::collections::VecDeque;
use std::time::Duration;

use super::compatibility::{Compatibility, Share};
use super::events::Event;
use super::holders::{Holder, Holders};
use super::latch::Latch;
use super::ticket::Watcher;
use super::tickets::Tickets;
use crate::backend::conflict::Use;
use crate::backend::{Ask, Claim, FencingToken, Held, LatchState, LatchStep, Mode, Queue, Released};
use crate::clock::Moment;
use crate::owner::Owner;

/// The answer to one claim.
#[allow(clippy::large_enum_variant, reason = "one lives at a time, on the stack of a call")]
#[derive(Debug)]
pub(super) enum Verdict {
    Granted {
        fence: FencingToken,
        waiters: usize,
    },
    Held(Held),
    /// The key at this index of the claim's keys is in use in this mode, which can never share the key with the
    /// requested mode. The claim gets an error instead of waiting.
    Conflict(usize, Use),
}

/// The relation of a claim to a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Relation {
    Owner,
    Free,
    Held,
    Conflict(Use),
}

/// The state of one key. If a key has neither a holder nor a waiter, its entry may stay until its shard is swept. The
/// key is likely to be claimed again, and keeping the entry costs less than creating a new one.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) holders: Holders,
    /// The queued claims.
    pub(super) tickets: Tickets,
    /// The watchers of claims without a ticket, in order of arrival.
    pub(super) waiters: VecDeque<Watcher>,
    /// The events that are delivered after the shard is unlocked.
    pub(super) events: Vec<Event>,
    latch: Option<Box<Latch>>,
}

impl Entry {
    /// Returns whether the key has no holder, no waiter and no latch, so that its entry can be dropped.
    pub(super) fn is_idle(&self, now: Moment) -> bool {
        self.waiters.is_empty()
            && self.holders.latest().is_none_or(|end| end.is_past(now))
            && self.tickets.are_all_dead(now)
            && self.latch.as_ref().is_none_or(|latch| latch.is_past(now))
    }

    /// Returns whether the entry has much memory to free: the key had a queue, or many holders, since the entry was
    /// created.
    pub(super) fn is_large(&self) -> bool {
        self.waiters.capacity() > 0 || self.tickets.had_any() || self.holders.are_large()
    }

    /// Returns the events since the last call.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Tries once to grant the key to `claim`, a claim of one key. `fence` makes the token of a new grant.
    pub(super) fn acquire(
        &mut self,
        claim: &Claim,
        ask: Ask,
        now: Moment,
        fence: impl FnOnce() -> FencingToken,
    ) -> Verdict {
        match self.relation(claim, now) {
            Relation::Owner => {
                let fence = self.fence(claim, now, fence).expect("BUG: it was this owner's a moment ago");
                self.renew(claim.owner, claim.ttl, now);
                self.granted(claim, fence)
            }
            Relation::Free => {
                let fence = fence();
                self.take(claim, fence, now);
                self.settle(now, None);
                self.granted(claim, fence)
            }
            Relation::Held => {
                let held = self.wait(claim, ask, now);
                self.settle(now, None);
                Verdict::Held(held)
            }
            Relation::Conflict(other) => {
                // The claim is refused permanently, and sends no further request. Its ticket is removed, because it
                // would block the queue until it expires.
                self.forget_ticket(claim.owner);
                self.settle(now, None);
                Verdict::Conflict(0, other)
            }
        }
    }

    fn granted(&self, claim: &Claim, fence: FencingToken) -> Verdict {
        Verdict::Granted { fence, waiters: self.waiting(claim.owner) }
    }

    pub(super) fn relation(&mut self, claim: &Claim, now: Moment) -> Relation {
        self.expire(now);
        if self.latch.is_some() {
            return Relation::Conflict(Use::Latch);
        }
        if let Some(holder) = self.held_by(claim.owner) {
            return match (holder.mode, claim.mode) {
                (Mode::Exclusive, Mode::Shared) => Relation::Owner,
                // The owner has a shared lock and requests an exclusive one, so it would wait for its own grant.
                (Mode::Shared, Mode::Exclusive) => Relation::Held,
                (has, asks) if has == asks => Relation::Owner,
                (has, _) => Relation::Conflict(Use::Lock(has)),
            };
        }
        match self.fit(claim) {
            Compatibility::Compatible => Relation::Free,
            Compatibility::Blocked => Relation::Held,
            Compatibility::Conflict(mode) => Relation::Conflict(Use::Lock(mode)),
        }
    }

    /// Grants the key to `claim`. The key must be [free](Relation::Free) for this claim.
    pub(super) fn take(&mut self, claim: &Claim, fence: FencingToken, now: Moment) {
        let share = Share::new(claim);
        if self.forget_ticket(claim.owner).is_some_and(|asked| asked != share) {
            self.tickets.unserve();
        }
        self.holders.push(Holder {
            owner: claim.owner,
            mode: share.mode,
            permits: share.permits,
            granted: now,
            deadline: now.plus(claim.ttl),
            fence,
            handoffs: claim.handoffs,
            record: claim.record.clone(),
            several: !claim.more.is_empty(),
            kept: false,
        });
    }

    /// Returns the answer *held* to `claim`. Queues the claim if `ask` requests this, or keeps its place in the queue.
    pub(super) fn wait(&mut self, claim: &Claim, ask: Ask, now: Moment) -> Held {
        let waiters = self.waiting(claim.owner);
        let takes = match ask {
            Ask::Probe | Ask::Try => false,
            Ask::Enqueue { room } => {
                room.is_none_or(|room| waiters < room)
                    && !self.is_handed_on_locally(claim)
                    && self.held_by(claim.owner).is_none()
            }
        };
        // An existing ticket is always kept, because a claim that sends a request is alive.
        let position = if takes { Some(self.take_ticket(claim, now)) } else { self.keep_ticket(claim, now) };
        // An exclusive claim waits until the last holder has released the key. Any other claim waits only until the
        // first holder has released it.
        let free = if claim.mode == Mode::Exclusive { self.holders.latest() } else { self.holders.soonest() };
        Held {
            remaining: free.map(|end| end.remaining(now)),
            holder: self.holders.first().map(|holder| holder.record.clone()),
            foreign: false,
            waiters: Some(waiters),
            position,
            own: self.local_holder().is_some_and(|holder| holder.owner.may_hand_off_to(&claim.owner)),
            queued_at: position.map(|_| now),
            key: None,
            kept: self.holders.first().is_some_and(|holder| holder.kept),
        }
    }

    /// Returns whether the manager of the holder itself hands the grant off to `claim`.
    pub(super) fn is_handed_on_locally(&self, claim: &Claim) -> bool {
        claim.queue == Queue::Barging
            && claim.more.is_empty()
            && self
                .local_holder()
                .is_some_and(|holder| holder.owner.may_hand_off_to(&claim.owner) && !holder.several)
    }

    /// Returns the exclusive holder. Returns `None` if the holder has released the key but keeps it locked.
    pub(super) fn local_holder(&self) -> Option<&Holder> {
        self.holders.first().filter(|holder| holder.mode == Mode::Exclusive && !holder.kept)
    }

    /// Extends the grant of `owner`. Returns the number of waiting claims, or `None` if the owner has no grant.
    pub(super) fn renew(&mut self, owner: Owner, ttl: Duration, now: Moment) -> Option<usize> {
        self.expire(now);
        self.holders.change(owner, |holder| holder.extend(ttl, now))?;
        Some(self.waiting(owner))
    }

    /// Turns the grant of the owner of `claim` into a shared grant. Returns the number of waiting claims, or `None` if
    /// the owner has no grant.
    pub(super) fn downgrade(&mut self, claim: &Claim, now: Moment) -> Result<Option<usize>, Use> {
        self.expire(now);
        let Some(holder) = self.held_by(claim.owner) else { return Ok(None) };
        if let Mode::Permit { .. } = holder.mode {
            return Err(Use::Lock(holder.mode));
        }
        self.holders.change(claim.owner, |holder| {
            holder.mode = Mode::Shared;
            holder.extend(claim.ttl, now);
        });
        self.settle(now, None);
        Ok(Some(self.waiting(claim.owner)))
    }

    /// Releases the grant or the ticket of the owner of `claim`.
    pub(super) fn release(&mut self, claim: &Claim, keep_for: Option<Duration>, now: Moment) -> Released {
        self.expire(now);
        self.forget_ticket(claim.owner);
        let released = match () {
            // The owner has already released the key, which stays locked. A repeated release changes nothing.
            () if self.holders.get(claim.owner, true).is_some() => Released::Released,
            () if self.give_back(claim.owner, keep_for, now) => Released::Released,
            () if self.holders.usage().admits(Share::new(claim)) == Compatibility::Compatible => {
                Released::Expired
            }
            () => Released::Taken,
        };
        self.settle(now, None);
        released
    }

    /// Removes the grant of `owner`. With `keep_for`, the key stays locked without an owner. Returns whether the owner
    /// had a grant.
    fn give_back(&mut self, owner: Owner, keep_for: Option<Duration>, now: Moment) -> bool {
        match keep_for.filter(|keep| !keep.is_zero()) {
            Some(keep) => {
                let keep = |holder: &mut Holder| (holder.kept, holder.deadline) = (true, now.plus(keep));
                self.holders.change(owner, keep).is_some()
            }
            None => self.holders.remove(owner, false),
        }
    }

    /// Returns the fencing token of the grant of `claim`. If the last token is from before a hand-off, `make` makes a
    /// new token.
    pub(super) fn fence(
        &mut self,
        claim: &Claim,
        now: Moment,
        make: impl FnOnce() -> FencingToken,
    ) -> Option<FencingToken> {
        self.expire(now);
        self.holders.change(claim.owner, |holder| {
            if claim.handoffs > holder.handoffs {
                (holder.fence, holder.handoffs) = (make(), claim.handoffs);
            }
            holder.fence
        })
    }

    /// Returns the last token of the grant of `owner`, and the number of hand-offs before the token was made.
    pub(super) fn last_fence(&self, owner: Owner) -> Option<(FencingToken, u64)> {
        self.held_by(owner).map(|holder| (holder.fence, holder.handoffs))
    }

    /// Stores the token of the grant of `claim`, and the present number of hand-offs.
    pub(super) fn set_fence(&mut self, claim: &Claim, fence: FencingToken) {
        self.holders.change(claim.owner, |holder| {
            (holder.fence, holder.handoffs, holder.several) = (fence, claim.handoffs, !claim.more.is_empty());
        });
    }

    /// Performs one step of the latch of the key.
    pub(super) fn latch(&mut self, step: &LatchStep, now: Moment) -> Result<LatchState, Use> {
        self.expire(now);
        let waiting = self.tickets.front().map(|ticket| ticket.share.mode);
        if let Some(mode) = self.holders.first().map(|holder| holder.mode).or(waiting) {
            return Err(Use::Lock(mode));
        }
        if self.latch.is_none() {
            self.latch = Latch::new(step, now).map(Box::new);
        }
        let Some(latch) = &mut self.latch else { return Ok(LatchState::Unset) };
        let (state, told) = latch.step(step, now);
        self.events.extend(told.into_iter().map(Event::Opened));
        Ok(state)
    }

    pub(super) fn expire(&mut self, now: Moment) {
        self.holders.expire(now);
        self.tickets.expire(now);
        if self.latch.as_ref().is_some_and(|latch| latch.is_past(now)) {
            self.latch = None;
        }
    }

    pub(super) fn held_by(&self, owner: Owner) -> Option<&Holder> {
        self.holders.get(owner, false)
    }

    /// Returns whether `claim` is compatible with the holders and with every older ticket.
    fn fit(&mut self, claim: &Claim) -> Compatibility {
        let holders = self.holders.usage();
        let all_served = self.tickets.serve(holders);
        let older = self.tickets.position(claim.owner).unwrap_or(self.tickets.len());
        if older <= self.tickets.served() {
            return self.tickets.usage_before(older, holders).admits(Share::new(claim));
        }
        // An older ticket cannot be granted yet, so this claim is blocked or in conflict. All holders and waiters use
        // the key as the same kind of lock, so a comparison with some of them finds every conflict.
        match all_served.admits(Share::new(claim)) {
            Compatibility::Conflict(mode) => Compatibility::Conflict(mode),
            Compatibility::Compatible | Compatibility::Blocked => Compatibility::Blocked,
        }
    }
}
