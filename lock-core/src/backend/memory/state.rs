//! One key: who holds it, who waits, and who is next. Pure: time comes in as an argument.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::{Claim, FencingToken, Held, Mode, Queue, Released};
use crate::clock::Moment;
use crate::owner::{Owner, OwnerRecord};

/// How long a ticket outlives the last sign of its claim; less when its ttl is shorter.
pub(super) const TICKET: Duration = Duration::from_secs(2);

/// Wakes one waiter; rung after the lock of the shard is released.
pub(super) type Bell = Arc<Notify>;

/// The answer to one claim.
#[derive(Debug)]
pub(super) enum Verdict {
    Granted(FencingToken),
    Held(Held),
    /// The key is in use in this mode, which has nothing in common with the claim's.
    Conflict(Mode),
}

/// One key. There is none for a key that nobody holds and nobody waits for.
#[derive(Debug, Default)]
pub(super) struct Entry {
    holders: Vec<Holder>,
    /// Fifo claims in order of arrival.
    tickets: VecDeque<Ticket>,
    /// Barging claims that are awaited, in order of arrival.
    waiters: VecDeque<Watcher>,
    /// To be rung when the lock of the shard is released.
    bells: Vec<Bell>,
}

#[derive(Debug)]
struct Holder {
    owner: Owner,
    mode: Mode,
    deadline: Moment,
    fence: FencingToken,
    record: OwnerRecord,
    /// Given back with `keep_for`: nobody's any more, and taken all the same.
    kept: bool,
}

#[derive(Debug)]
struct Ticket {
    owner: Owner,
    mode: Mode,
    /// Counts only while there is no watcher.
    deadline: Moment,
    watchers: Vec<Watcher>,
}

/// One pending `changed` future.
#[derive(Debug)]
struct Watcher {
    id: u64,
    mode: Mode,
    bell: Bell,
    /// It is this one's turn, and its future has not seen it yet.
    called: bool,
    /// Until when it sleeps, to look again on its own; only one watcher of a key does.
    armed: Option<Moment>,
}

/// What a watcher finds when it looks.
#[derive(Debug, PartialEq)]
pub(super) enum Look {
    /// Another try makes sense; the watcher is gone from the entry.
    Go,
    /// Not yet; with a moment, look again then.
    Wait(Option<Moment>),
}

/// How much of the key is in use: what the next in line is measured against.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    mode: Option<Mode>,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fit {
    Yes,
    No,
    Conflict(Mode),
}

impl Room {
    fn fit(self, mode: Mode) -> Fit {
        use Mode::{Exclusive, Permit, Shared};
        match (self.mode, mode) {
            (None, _) | (Some(Shared), Shared) => Fit::Yes,
            (Some(Exclusive), Exclusive | Shared) | (Some(Shared), Exclusive) => Fit::No,
            (Some(Permit { of }), Permit { of: asked }) if of == asked => {
                if self.count < usize::try_from(of).unwrap_or(usize::MAX) { Fit::Yes } else { Fit::No }
            }
            (Some(other), _) => Fit::Conflict(other),
        }
    }

    fn add(&mut self, mode: Mode) {
        self.mode = Some(mode);
        self.count += 1;
    }
}

impl Entry {
    /// Nobody holds it and nobody waits for it, so that it can be dropped.
    pub(super) fn is_idle(&self, now: Moment) -> bool {
        self.waiters.is_empty()
            && self.holders.iter().all(|holder| holder.deadline.is_past(now))
            && self.tickets.iter().all(|ticket| ticket.is_dead(now))
    }

    /// Whom the changes since the last call concern.
    pub(super) fn take_bells(&mut self) -> Vec<Bell> {
        std::mem::take(&mut self.bells)
    }

    /// Tries once for `claim`; `fence` makes the token of a new grant.
    pub(super) fn acquire(
        &mut self,
        claim: &Claim,
        queues: bool,
        now: Moment,
        fence: impl FnOnce() -> FencingToken,
    ) -> Verdict {
        self.expire(now);
        let deadline = now.plus(claim.ttl);
        if let Some(holder) = self.held_by(claim.owner) {
            holder.extend(deadline, now);
            return Verdict::Granted(holder.fence);
        }
        let verdict = match self.fit(claim) {
            Fit::Yes => {
                self.forget_ticket(claim.owner);
                let fence = fence();
                self.holders.push(Holder {
                    owner: claim.owner,
                    mode: claim.mode,
                    deadline,
                    fence,
                    record: claim.record.clone(),
                    kept: false,
                });
                Verdict::Granted(fence)
            }
            Fit::No => {
                if queues {
                    self.take_ticket(claim, now);
                }
                Verdict::Held(self.held(claim, now))
            }
            Fit::Conflict(mode) => {
                self.forget_ticket(claim.owner);
                Verdict::Conflict(mode)
            }
        };
        self.settle(now, None);
        verdict
    }

    /// Extends the grant of `owner`; whether there is one.
    pub(super) fn renew(&mut self, owner: Owner, ttl: Duration, now: Moment) -> bool {
        self.expire(now);
        self.held_by(owner).map(|holder| holder.extend(now.plus(ttl), now)).is_some()
    }

    /// Gives back what the owner of `claim` has, grant or ticket.
    pub(super) fn release(&mut self, claim: &Claim, keep_for: Option<Duration>, now: Moment) -> Released {
        self.expire(now);
        self.forget_ticket(claim.owner);
        let released = match self.holders.iter().position(|holder| holder.owner == claim.owner) {
            Some(at) => {
                self.give_back(at, keep_for.filter(|keep| !keep.is_zero()), now);
                Released::Released
            }
            None if self.room().fit(claim.mode) == Fit::Yes => Released::Expired,
            None => Released::Taken,
        };
        self.settle(now, None);
        released
    }

    fn give_back(&mut self, at: usize, keep_for: Option<Duration>, now: Moment) {
        let holder = &mut self.holders[at];
        match keep_for {
            // A release that is repeated changes nothing.
            _ if holder.kept => {}
            Some(keep) => {
                holder.kept = true;
                holder.deadline = now.plus(keep);
            }
            None => {
                self.holders.remove(at);
            }
        }
    }

    /// The fencing token of a grant of `owner`.
    pub(super) fn fence(&mut self, owner: Owner, now: Moment) -> Option<FencingToken> {
        self.expire(now);
        self.held_by(owner).map(|holder| holder.fence)
    }

    /// Adds a watcher for `claim`. `false` when it has nothing to wait for: a fifo claim without a ticket is to ask
    /// first, or it would lose its place to newcomers.
    pub(super) fn watch(&mut self, claim: &Claim, id: u64, bell: Bell, now: Moment) -> bool {
        self.expire(now);
        let watcher = Watcher { id, mode: claim.mode, bell, called: false, armed: None };
        match claim.queue {
            Queue::Barging if self.held_by(claim.owner).is_some() => return false,
            Queue::Barging => self.waiters.push_back(watcher),
            Queue::Fifo => match self.tickets.iter_mut().find(|ticket| ticket.owner == claim.owner) {
                Some(ticket) => ticket.watchers.push(watcher),
                None => return false,
            },
        }
        true
    }

    /// What the watcher `id` is to do now.
    pub(super) fn look(&mut self, claim: &Claim, id: u64, now: Moment) -> Look {
        self.settle(now, None);
        match self.watcher(claim, id) {
            Some(watcher) if !watcher.called => {
                // One that is not the first any more has an alarm that nobody set anew: it is not to sleep until the past.
                let armed = watcher.armed.filter(|armed| !armed.is_past(now));
                let own = Arc::clone(&watcher.bell);
                // It is looking already.
                self.bells.retain(|bell| !Arc::ptr_eq(bell, &own));
                Look::Wait(armed)
            }
            _ => {
                self.remove_watcher(claim, id, now);
                // Its turn is not another's: it is about to try. Should it not, its owner's release moves the queue on.
                self.settle(now, Some(claim.mode).filter(|_| claim.queue == Queue::Barging));
                Look::Go
            }
        }
    }

    /// Removes a watcher that has not seen its turn, which passes on.
    pub(super) fn unwatch(&mut self, claim: &Claim, id: u64, now: Moment) {
        self.remove_watcher(claim, id, now);
        self.settle(now, None);
    }

    /// The ticket of the claim lives on from here.
    fn remove_watcher(&mut self, claim: &Claim, id: u64, now: Moment) {
        match claim.queue {
            Queue::Barging => self.waiters.retain(|watcher| watcher.id != id),
            Queue::Fifo => {
                if let Some(ticket) = self.tickets.iter_mut().find(|ticket| ticket.owner == claim.owner) {
                    ticket.watchers.retain(|watcher| watcher.id != id);
                    ticket.deadline = now.plus(claim.ttl.min(TICKET));
                }
            }
        }
    }

    /// Calls every watcher whose turn has come, and lets one of the others look after expiry. The end of every change.
    ///
    /// `acting` is the mode of a barging waiter that was called, has seen it, and is about to try.
    fn settle(&mut self, now: Moment, acting: Option<Mode>) {
        // The common case, an uncontended key, has nobody to wake.
        if self.tickets.is_empty() && self.waiters.is_empty() {
            return;
        }
        self.expire(now);
        self.call(acting);
        self.arm(now);
    }

    fn call(&mut self, acting: Option<Mode>) {
        let mut room = self.room();
        for ticket in &mut self.tickets {
            if room.fit(ticket.mode) != Fit::Yes {
                return;
            }
            room.add(ticket.mode);
            for watcher in &mut ticket.watchers {
                watcher.call(&mut self.bells);
            }
        }
        let called = self.waiters.iter().filter(|watcher| watcher.called).map(|watcher| watcher.mode);
        for mode in called.chain(acting) {
            room.add(mode);
        }
        for watcher in self.waiters.iter_mut().filter(|watcher| !watcher.called) {
            match room.fit(watcher.mode) {
                Fit::Yes => {
                    room.add(watcher.mode);
                    watcher.call(&mut self.bells);
                }
                // Its next try answers at once, with an error.
                Fit::Conflict(_) => watcher.call(&mut self.bells),
                Fit::No if room.mode == Some(Mode::Exclusive) => break,
                Fit::No => {}
            }
        }
    }

    /// Expiry rings no bell, so the first of those who wait sleeps until the next one.
    fn arm(&mut self, now: Moment) {
        let holders = self.holders.iter().map(|holder| holder.deadline);
        let tickets = self.tickets.iter().filter(|ticket| ticket.watchers.is_empty()).map(|it| it.deadline);
        let Some(next) = holders.chain(tickets).min_by_key(|deadline| deadline.remaining(now)) else {
            return;
        };
        let queued = self.tickets.iter_mut().flat_map(|ticket| &mut ticket.watchers);
        if let Some(first) = queued.chain(&mut self.waiters).find(|watcher| !watcher.called)
            && first
                .armed
                .is_none_or(|armed| armed.is_past(now) || armed.remaining(now) > next.remaining(now))
        {
            first.armed = Some(next);
            self.bells.push(Arc::clone(&first.bell));
        }
    }

    fn expire(&mut self, now: Moment) {
        self.holders.retain(|holder| !holder.deadline.is_past(now));
        self.tickets.retain(|ticket| !ticket.is_dead(now));
    }

    fn held_by(&mut self, owner: Owner) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.owner == owner && !holder.kept)
    }

    fn room(&self) -> Room {
        Room { mode: self.holders.first().map(|holder| holder.mode), count: self.holders.len() }
    }

    /// Whether `claim` may have the key: beside the holders, and beside every older ticket.
    fn fit(&self, claim: &Claim) -> Fit {
        let mut room = self.room();
        for ticket in self.tickets.iter().take_while(|ticket| ticket.owner != claim.owner) {
            if room.fit(ticket.mode) != Fit::Yes {
                // What blocks an older ticket blocks this claim. All who hold or wait are of one kind, so it is
                // enough to compare with the holders.
                return match room.fit(claim.mode) {
                    Fit::Conflict(mode) => Fit::Conflict(mode),
                    Fit::Yes | Fit::No => Fit::No,
                };
            }
            room.add(ticket.mode);
        }
        room.fit(claim.mode)
    }

    fn take_ticket(&mut self, claim: &Claim, now: Moment) {
        let deadline = now.plus(claim.ttl.min(TICKET));
        match self.tickets.iter_mut().find(|ticket| ticket.owner == claim.owner) {
            Some(ticket) => ticket.deadline = deadline,
            None => self.tickets.push_back(Ticket {
                owner: claim.owner,
                mode: claim.mode,
                deadline,
                watchers: Vec::new(),
            }),
        }
    }

    /// The watchers of a ticket go with it; their futures find themselves gone and complete.
    fn forget_ticket(&mut self, owner: Owner) {
        if let Some(at) = self.tickets.iter().position(|ticket| ticket.owner == owner)
            && let Some(ticket) = self.tickets.remove(at)
        {
            self.bells.extend(ticket.watchers.into_iter().map(|watcher| watcher.bell));
        }
    }

    fn watcher(&mut self, claim: &Claim, id: u64) -> Option<&mut Watcher> {
        match claim.queue {
            Queue::Barging => self.waiters.iter_mut().find(|watcher| watcher.id == id),
            Queue::Fifo => {
                let ticket = self.tickets.iter_mut().find(|ticket| ticket.owner == claim.owner)?;
                ticket.watchers.iter_mut().find(|watcher| watcher.id == id)
            }
        }
    }

    fn held(&self, claim: &Claim, now: Moment) -> Held {
        let left = self.holders.iter().map(|holder| holder.deadline.remaining(now));
        let others = self.tickets.iter().filter(|ticket| ticket.owner != claim.owner).count();
        Held {
            // An exclusive claim needs the last holder gone, any other the first.
            remaining: if claim.mode == Mode::Exclusive { left.max() } else { left.min() },
            holder: self.holders.first().map(|holder| holder.record.clone()),
            waiters: Some(others + self.waiters.len()),
            ..Held::default()
        }
    }
}

impl Holder {
    fn extend(&mut self, deadline: Moment, now: Moment) {
        if deadline.remaining(now) > self.deadline.remaining(now) {
            self.deadline = deadline;
        }
    }
}

impl Ticket {
    fn is_dead(&self, now: Moment) -> bool {
        self.watchers.is_empty() && self.deadline.is_past(now)
    }
}

impl Watcher {
    fn call(&mut self, bells: &mut Vec<Bell>) {
        if !self.called {
            self.called = true;
            bells.push(Arc::clone(&self.bell));
        }
    }
}
