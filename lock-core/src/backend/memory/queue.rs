//! Those who wait for one key: tickets, watchers, and whose turn it is. Pure: time comes in as an argument.

use std::sync::Arc;

use tokio::sync::Notify;

use super::compatibility::{Compatibility, Usage};
use super::entry::{Entry, Relation};
use super::events::Event;
use super::ticket::{Check, Ticket, Watcher};
use crate::backend::{Claim, Mode, Queue, WAITER_LEASE};
use crate::clock::Moment;
use crate::owner::Owner;

impl Entry {
    /// How many others than `owner` wait. Those to whom the holder's manager passes the key on are its own affair.
    pub(super) fn waiting(&self, owner: Owner) -> usize {
        // The common case: an uncontended key.
        if self.tickets.is_empty() && self.waiters.is_empty() {
            return 0;
        }
        let local = self.local_holder().map(|holder| holder.owner.process());
        let tickets = self.tickets.len() - usize::from(self.tickets.contains(owner));
        tickets + self.waiters.iter().filter(|watcher| Some(watcher.process) != local).count()
    }

    /// Takes or keeps a place; how many are before it.
    pub(super) fn take_ticket(&mut self, claim: &Claim, now: Moment) -> usize {
        if let Some(position) = self.keep_ticket(claim, now) {
            return position;
        }
        self.tell_holder(claim.owner);
        let deadline = now.plus(claim.ttl.min(WAITER_LEASE));
        let (owner, mode, record) = (claim.owner, claim.mode, claim.record.clone());
        let ticket = Ticket { owner, mode, record, deadline, watchers: Vec::new() };
        self.tickets.push(ticket);
        self.tickets.len() - 1
    }

    /// Keeps the place of a claim that has one; how many are before it.
    pub(super) fn keep_ticket(&mut self, claim: &Claim, now: Moment) -> Option<usize> {
        self.tickets.change(claim.owner, |ticket| ticket.deadline = now.plus(claim.ttl.min(WAITER_LEASE)))?;
        self.tickets.position(claim.owner)
    }

    /// The first who begins to wait is told to the holder.
    fn tell_holder(&mut self, owner: Owner) {
        if self.waiting(owner) == 0
            && let Some(holder) = self.local_holder()
        {
            let process = holder.owner.process();
            self.events.push(Event::Contended(process));
        }
    }

    /// The watchers of a ticket go with it; their futures find themselves gone and complete. What it waited for, if
    /// there was one.
    pub(super) fn forget_ticket(&mut self, owner: Owner) -> Option<Mode> {
        let ticket = self.tickets.remove(owner)?;
        self.events.extend(ticket.watchers.into_iter().map(|watcher| Event::Wake(watcher.wake)));
        Some(ticket.mode)
    }

    /// Whether `claim` has something to wait for here: it does not have the key, and will not be refused for good.
    pub(super) fn can_wait(&mut self, claim: &Claim, now: Moment) -> bool {
        let relation = self.relation(claim, now);
        matches!(relation, Relation::Held | Relation::Free) && self.held_by(claim.owner).is_none()
    }

    /// Adds a watcher for `claim`. A claim that waits in order, or for several keys, has a place from here on.
    pub(super) fn watch(&mut self, claim: &Claim, id: u64, wake: Arc<Notify>, now: Moment) {
        let process = claim.owner.process();
        let local = self.is_handed_on_locally(claim);
        let watcher = Watcher { id, mode: claim.mode, process, local, wake, called: false, armed: None };
        if claim.queue == Queue::Fifo || !claim.more.is_empty() {
            self.take_ticket(claim, now);
        }
        if self.tickets.contains(claim.owner) {
            self.tickets.change(claim.owner, |ticket| ticket.watchers.push(watcher));
            return;
        }
        if self.local_holder().is_some_and(|holder| holder.owner.process() != process) {
            self.tell_holder(claim.owner);
        }
        self.waiters.push_back(watcher);
    }

    /// What the watcher `id` of `claim` is to do now.
    pub(super) fn check(&mut self, claim: &Claim, id: u64, now: Moment) -> Check {
        self.settle(now, None);
        if self.held_by(claim.owner).is_some() {
            return Check::Ready;
        }
        let Some(watcher) = self.watcher(claim, id) else { return Check::Retry };
        if watcher.called {
            return Check::Ready;
        }
        // One that is not the first any more has an alarm that nobody set anew: it is not to sleep until the past.
        let armed = watcher.armed.filter(|armed| !armed.is_past(now));
        let own = Arc::clone(&watcher.wake);
        // It is looking already.
        self.events.retain(|event| !matches!(event, Event::Wake(wake) if Arc::ptr_eq(wake, &own)));
        Check::Wait(armed)
    }

    /// Removes a watcher that has seen its turn. It is not another's: the watcher is about to try. Should it not, its
    /// owner's release moves the queue on.
    pub(super) fn go(&mut self, claim: &Claim, id: u64, now: Moment) {
        let acting = self.waiters.iter().any(|watcher| watcher.id == id && watcher.called);
        self.remove_watcher(claim, id, now);
        self.settle(now, Some(claim.mode).filter(|_| acting));
    }

    /// Removes a watcher that has not seen its turn, which passes on.
    pub(super) fn unwatch(&mut self, claim: &Claim, id: u64, now: Moment) {
        self.remove_watcher(claim, id, now);
        self.settle(now, None);
    }

    /// The ticket of the claim lives on from here.
    fn remove_watcher(&mut self, claim: &Claim, id: u64, now: Moment) {
        self.waiters.retain(|watcher| watcher.id != id);
        self.tickets.change(claim.owner, |ticket| {
            if ticket.watchers.iter().any(|watcher| watcher.id == id) {
                ticket.watchers.retain(|watcher| watcher.id != id);
                ticket.deadline = now.plus(claim.ttl.min(WAITER_LEASE));
            }
        });
    }

    fn watcher(&self, claim: &Claim, id: u64) -> Option<&Watcher> {
        let queued = self.tickets.get(claim.owner).into_iter().flat_map(|ticket| &ticket.watchers);
        queued.chain(&self.waiters).find(|watcher| watcher.id == id)
    }

    /// Calls every watcher whose turn has come, and lets one of the others look after expiry. The end of every change.
    ///
    /// `acting` is the mode of a watcher without a place that was called, has seen it, and is about to try.
    pub(super) fn settle(&mut self, now: Moment, acting: Option<Mode>) {
        // The common case, an uncontended key, has nobody to wake.
        if self.tickets.is_empty() && self.waiters.is_empty() {
            return;
        }
        self.expire(now);
        self.call_strangers();
        self.call(acting, now);
        self.arm(now);
    }

    /// One to whom its own manager was to pass the key on asks anew, for a place, once another manager has the key.
    fn call_strangers(&mut self) {
        let Some(process) = self.local_holder().map(|holder| holder.owner.process()) else { return };
        for watcher in self.waiters.iter_mut().filter(|watcher| watcher.local && watcher.process != process) {
            watcher.call(&mut self.events);
        }
    }

    fn call(&mut self, acting: Option<Mode>, now: Moment) {
        let usage = self.tickets.serve(self.holders.usage());
        let events = &mut self.events;
        self.tickets.call(|ticket| {
            // One that is called and does not come is not polled: it must not hold up those behind it for long.
            ticket.deadline = now.plus(WAITER_LEASE);
            ticket.watchers.iter_mut().for_each(|watcher| watcher.call(events));
        });
        if self.tickets.served() == self.tickets.len() {
            self.call_without_place(usage, acting);
        }
    }

    fn call_without_place(&mut self, mut usage: Usage, acting: Option<Mode>) {
        let called = self.waiters.iter().filter(|watcher| watcher.called).map(|watcher| watcher.mode);
        for mode in called.chain(acting) {
            usage.add(mode);
        }
        for watcher in self.waiters.iter_mut().filter(|watcher| !watcher.called) {
            match usage.admits(watcher.mode) {
                Compatibility::Compatible => {
                    usage.add(watcher.mode);
                    watcher.call(&mut self.events);
                }
                // Its next try answers at once, with an error.
                Compatibility::Conflict(_) => watcher.call(&mut self.events),
                Compatibility::Blocked if usage.is_exclusive() => break,
                Compatibility::Blocked => {}
            }
        }
    }

    /// Expiry rings no wake, so the first of those who wait sleeps until the next one.
    fn arm(&mut self, now: Moment) {
        let ends = [self.holders.soonest(), self.tickets.soonest()];
        let Some(next) = ends.into_iter().flatten().min_by_key(|end| end.remaining(now)) else { return };
        let first = self.tickets.first_watcher();
        let first = first.or_else(|| self.waiters.iter_mut().find(|watcher| !watcher.called));
        if let Some(first) = first
            && first
                .armed
                .is_none_or(|armed| armed.is_past(now) || armed.remaining(now) > next.remaining(now))
        {
            first.armed = Some(next);
            self.events.push(Event::Wake(Arc::clone(&first.wake)));
        }
    }
}
