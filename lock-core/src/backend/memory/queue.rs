//! Manages the waiters of one key. A *ticket* is the place of a claim in the queue. The *turn* of a claim has come when
//! the key can be granted to the claim. A *watcher* is a future that waits for this turn, with or without a ticket.
//! Each call gets the current time as an argument.

use std::sync::Arc;
use std::time::Duration;

use super::compatibility::{Compatibility, Share, Usage};
use super::entry::{Entry, Relation};
use super::events::Event;
use super::ticket::{Check, Ticket, Watcher};
use crate::backend::{Claim, WAITER_LEASE};
use crate::clock::Moment;
use crate::owner::Owner;
use crate::sync::Notify;

/// The delay between the end of a lease and the check by the waiters behind the first waiter.
const AFTER_THE_FIRST: Duration = Duration::from_millis(250);

impl Entry {
    /// Returns the number of waiting claims of owners other than `owner`. Claims to which the holder's manager hands
    /// the grant off do not count.
    pub(super) fn waiting(&self, owner: Owner) -> usize {
        // Usually the key has no waiters.
        if self.tickets.is_empty() && self.waiters.is_empty() {
            return 0;
        }
        let local = self.local_holder().map(|holder| holder.owner.process());
        let tickets = self.tickets.len() - usize::from(self.tickets.contains(owner));
        tickets + self.waiters.iter().filter(|watcher| Some(watcher.process) != local).count()
    }

    /// Queues the claim, or keeps it in the queue. Returns the number of claims in front of it.
    pub(super) fn take_ticket(&mut self, claim: &Claim, now: Moment) -> usize {
        if let Some(position) = self.keep_ticket(claim, now) {
            return position;
        }
        self.tell_holder(claim.owner);
        let deadline = now.plus(claim.ttl.min(WAITER_LEASE));
        let (owner, share, record) = (claim.owner, Share::new(claim), claim.record.clone());
        let ticket = Ticket { owner, share, record, deadline, watchers: Vec::new() };
        self.tickets.push(ticket);
        self.tickets.len() - 1
    }

    /// Keeps a queued claim in the queue. Returns the number of claims in front of it, or `None` if it is not queued.
    pub(super) fn keep_ticket(&mut self, claim: &Claim, now: Moment) -> Option<usize> {
        self.tickets.change(claim.owner, |ticket| ticket.deadline = now.plus(claim.ttl.min(WAITER_LEASE)))?;
        self.tickets.position(claim.owner)
    }

    /// Reports the first waiting claim to the holder.
    fn tell_holder(&mut self, owner: Owner) {
        // The holder remembers that claims wait, so a single report is enough.
        if self.waiting(owner) == 0
            && let Some(holder) = self.local_holder()
        {
            let process = holder.owner.process();
            self.events.push(Event::Contended(process));
        }
    }

    /// Removes a ticket and its watchers. The futures of the watchers notice the removal and complete. Returns the
    /// share that the ticket waited for, or `None` if there was no ticket.
    pub(super) fn forget_ticket(&mut self, owner: Owner) -> Option<Share> {
        // Usually the key has no tickets.
        if self.tickets.is_empty() {
            return None;
        }
        let ticket = self.tickets.remove(owner)?;
        self.events.extend(ticket.watchers.into_iter().map(|watcher| Event::Wake(watcher.wake)));
        Some(ticket.share)
    }

    /// Returns whether `claim` can wait. A claim that holds the key cannot wait, and neither can a claim that would be
    /// refused permanently.
    pub(super) fn can_wait(&mut self, claim: &Claim, now: Moment) -> bool {
        let relation = self.relation(claim, now);
        matches!(relation, Relation::Held | Relation::Free) && self.held_by(claim.owner).is_none()
    }

    /// Adds a watcher for `claim`. Also queues the claim if it has several keys.
    pub(super) fn watch(&mut self, claim: &Claim, id: u64, wake: Arc<Notify>, now: Moment) {
        let process = claim.owner.process();
        let local = self.is_handed_on_locally(claim);
        let watcher =
            Watcher { id, share: Share::new(claim), process, local, wake, called: false, armed: None };
        if !claim.more.is_empty() {
            self.take_ticket(claim, now);
        }
        if self.tickets.contains(claim.owner) {
            self.tickets.change(claim.owner, |ticket| ticket.watchers.push(watcher));
            return;
        }
        // Reports the claim before it joins the waiters, because there must be no report if another claim already
        // waits. A claim of the holder's own process is not reported, because their manager has a local queue.
        if self.local_holder().is_some_and(|holder| holder.owner.process() != process) {
            self.tell_holder(claim.owner);
        }
        self.waiters.push_back(watcher);
    }

    /// Checks whether the turn of the watcher `id` of `claim` has come.
    pub(super) fn check(&mut self, claim: &Claim, id: u64, now: Moment) -> Check {
        // Nothing runs at the end of a lease. So each check removes the expired leases and calls the next waiter.
        self.settle(now, None);
        if self.held_by(claim.owner).is_some() {
            return Check::Ready;
        }
        // If the watcher is gone, its ticket has expired or its owner has released it. Only another attempt shows the
        // state of the claim.
        let Some(watcher) = self.watcher(claim, id) else { return Check::Retry };
        if watcher.called {
            return Check::Ready;
        }
        // Only the alarm of the first watcher is kept up to date. An alarm in the past is ignored, because with such an
        // alarm this watcher would never sleep.
        let armed = watcher.armed.filter(|armed| !armed.is_past(now));
        let own = Arc::clone(&watcher.wake);
        // This watcher is checking at this moment, so it needs no wake-up.
        self.events.retain(|event| !matches!(event, Event::Wake(wake) if Arc::ptr_eq(wake, &own)));
        // The first watcher may not be polled. So every other watcher checks the key a little later.
        Check::Wait(armed.or_else(|| self.next_end(now).map(|end| end.plus(AFTER_THE_FIRST))))
    }

    /// Removes a watcher that has seen its turn. Does not call the next waiter, because the claim of this watcher makes
    /// the next attempt. If the claim is dropped instead, its release calls the next waiter.
    pub(super) fn go(&mut self, claim: &Claim, id: u64, now: Moment) {
        // `acting` is read before the removal. A watcher with a ticket never counts as acting, because its ticket stays
        // in the queue.
        let acting = self.waiters.iter().any(|watcher| watcher.id == id && watcher.called);
        self.remove_watcher(claim, id, now);
        self.settle(now, Some(Share::new(claim)).filter(|_| acting));
    }

    /// Removes a watcher that has not seen its turn, and calls the next waiter if the turn of this watcher had come.
    pub(super) fn unwatch(&mut self, claim: &Claim, id: u64, now: Moment) {
        self.remove_watcher(claim, id, now);
        self.settle(now, None);
    }

    /// Removes a watcher. The ticket of its claim stays, with a lease that begins now.
    fn remove_watcher(&mut self, claim: &Claim, id: u64, now: Moment) {
        self.waiters.retain(|watcher| watcher.id != id);
        self.tickets.change(claim.owner, |ticket| {
            if ticket.watchers.iter().any(|watcher| watcher.id == id) {
                ticket.watchers.retain(|watcher| watcher.id != id);
                // A live waiter attempts its claim again now. A waiter that was dropped must not block the queue for
                // longer than this lease.
                ticket.deadline = now.plus(claim.ttl.min(WAITER_LEASE));
            }
        });
    }

    fn watcher(&self, claim: &Claim, id: u64) -> Option<&Watcher> {
        let queued = self.tickets.get(claim.owner).into_iter().flat_map(|ticket| &ticket.watchers);
        queued.chain(&self.waiters).find(|watcher| watcher.id == id)
    }

    /// Calls every watcher whose turn has come: wakes the watcher and marks it as called. Sets the alarm of the first
    /// other watcher to the next end of a lease. Every change of an entry ends with this function.
    ///
    /// `acting` is the share of a watcher without a ticket that was called and is about to retry. This watcher holds
    /// nothing yet. Without `acting`, the next watcher would be called for the same free part of the key.
    pub(super) fn settle(&mut self, now: Moment, acting: Option<Share>) {
        // Usually the key has no waiters.
        if self.tickets.is_empty() && self.waiters.is_empty() {
            return;
        }
        // Expired holders and tickets are dropped first, so that no watcher waits for them.
        self.expire(now);
        self.call_strangers();
        self.call(acting, now);
        self.arm(now);
    }

    /// Calls the watchers that expect a hand-off within their manager, if another manager now holds the key. Their
    /// claims must now queue in the store.
    fn call_strangers(&mut self) {
        let Some(process) = self.local_holder().map(|holder| holder.owner.process()) else { return };
        for watcher in self.waiters.iter_mut().filter(|watcher| watcher.local && watcher.process != process) {
            watcher.call(&mut self.events);
        }
    }

    fn call(&mut self, acting: Option<Share>, now: Moment) {
        let usage = self.tickets.serve(self.holders.usage());
        let events = &mut self.events;
        self.tickets.call(|ticket| {
            // A waiter that was called may not be polled. Its ticket expires, so that it does not delay the next
            // waiters for long.
            ticket.deadline = now.plus(WAITER_LEASE);
            ticket.watchers.iter_mut().for_each(|watcher| watcher.call(events));
        });
        // Watchers without a ticket are called only when the turn of all tickets has come.
        if self.tickets.served() == self.tickets.len() {
            self.call_without_place(usage, acting);
        }
    }

    fn call_without_place(&mut self, mut usage: Usage, acting: Option<Share>) {
        // A watcher that was called but has not retried yet counts as a holder. Otherwise two watchers would be called
        // for the same free part of the key.
        let called = self.waiters.iter().filter(|watcher| watcher.called).map(|watcher| watcher.share);
        for share in called.chain(acting) {
            usage.add(share);
        }
        for watcher in self.waiters.iter_mut().filter(|watcher| !watcher.called) {
            match usage.admits(watcher.share) {
                Compatibility::Compatible => {
                    usage.add(watcher.share);
                    watcher.call(&mut self.events);
                }
                // Calls the watcher, because its claim need not wait: its next attempt is answered at once, with an
                // error.
                Compatibility::Conflict(_) => watcher.call(&mut self.events),
                // No other claim is compatible with an exclusive use. So the loop ends and does not visit the remaining
                // watchers, of which there may be thousands.
                Compatibility::Blocked if usage.is_exclusive() => break,
                // Watchers without a ticket have no order, so a later watcher that is compatible may be called.
                Compatibility::Blocked => {}
            }
        }
    }

    /// Returns when the next lease of a holder or a ticket ends.
    fn next_end(&self, now: Moment) -> Option<Moment> {
        let ends = [self.holders.soonest(), self.tickets.soonest()];
        ends.into_iter().flatten().min_by_key(|end| end.remaining(now))
    }

    /// Sets the alarm of the first waiting watcher to the next end of a lease, because nothing else wakes a watcher at
    /// that time.
    fn arm(&mut self, now: Moment) {
        let Some(next) = self.next_end(now) else { return };
        // One alarm is usually enough, because the woken watcher updates the state of the key for all watchers.
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
