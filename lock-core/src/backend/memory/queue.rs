//! The waiters of one key: tickets, watchers, and whose turn has come. Pure: time is an argument.

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

/// How long after the end of a lease the waiters other than the first one check the key.
const AFTER_THE_FIRST: Duration = Duration::from_millis(250);

impl Entry {
    /// Returns how many claims of owners other than `owner` wait. Claims that the holder's manager serves do not count.
    pub(super) fn waiting(&self, owner: Owner) -> usize {
        // The common case: an uncontended key.
        if self.tickets.is_empty() && self.waiters.is_empty() {
            return 0;
        }
        let local = self.local_holder().map(|holder| holder.owner.process());
        let tickets = self.tickets.len() - usize::from(self.tickets.contains(owner));
        tickets + self.waiters.iter().filter(|watcher| Some(watcher.process) != local).count()
    }

    /// Queues the claim or keeps it in the queue. Returns how many are before it.
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

    /// Keeps a queued claim in the queue. Returns how many are before it.
    pub(super) fn keep_ticket(&mut self, claim: &Claim, now: Moment) -> Option<usize> {
        self.tickets.change(claim.owner, |ticket| ticket.deadline = now.plus(claim.ttl.min(WAITER_LEASE)))?;
        self.tickets.position(claim.owner)
    }

    /// Reports to the holder that a first claim began to wait.
    fn tell_holder(&mut self, owner: Owner) {
        // The holder remembers that others wait, so one report is enough.
        if self.waiting(owner) == 0
            && let Some(holder) = self.local_holder()
        {
            let process = holder.owner.process();
            self.events.push(Event::Contended(process));
        }
    }

    /// Removes a ticket and its watchers, whose futures notice that and complete. Returns what the ticket waited for,
    /// if there was one.
    pub(super) fn forget_ticket(&mut self, owner: Owner) -> Option<Share> {
        // The common case, an uncontended key, has no ticket to remove.
        if self.tickets.is_empty() {
            return None;
        }
        let ticket = self.tickets.remove(owner)?;
        self.events.extend(ticket.watchers.into_iter().map(|watcher| Event::Wake(watcher.wake)));
        Some(ticket.share)
    }

    /// Returns whether `claim` can wait: it does not have the key, and will not be refused for good.
    pub(super) fn can_wait(&mut self, claim: &Claim, now: Moment) -> bool {
        let relation = self.relation(claim, now);
        matches!(relation, Relation::Held | Relation::Free) && self.held_by(claim.owner).is_none()
    }

    /// Adds a watcher for `claim`. A claim for several keys is queued from now on.
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
        // This comes before the claim joins the waiters, where it would count as an earlier one. The manager of the
        // holder knows the waiters of its own process by its local queue.
        if self.local_holder().is_some_and(|holder| holder.owner.process() != process) {
            self.tell_holder(claim.owner);
        }
        self.waiters.push_back(watcher);
    }

    /// Returns the result of a check by the watcher `id` of `claim`.
    pub(super) fn check(&mut self, claim: &Claim, id: u64, now: Moment) -> Check {
        // The end of a lease changes nothing until the next check, which drops what has expired and calls the next
        // waiter.
        self.settle(now, None);
        if self.held_by(claim.owner).is_some() {
            return Check::Ready;
        }
        // The ticket is gone: it expired, or its owner released it. Only another try shows the state of the claim.
        let Some(watcher) = self.watcher(claim, id) else { return Check::Retry };
        if watcher.called {
            return Check::Ready;
        }
        // Only the first watcher's alarm is kept current. An alarm that already passed must be ignored, or this watcher
        // would never sleep.
        let armed = watcher.armed.filter(|armed| !armed.is_past(now));
        let own = Arc::clone(&watcher.wake);
        // This watcher checks now, so it need not be woken.
        self.events.retain(|event| !matches!(event, Event::Wake(wake) if Arc::ptr_eq(wake, &own)));
        // The first watcher may not be polled. Then each of the others checks a little later.
        Check::Wait(armed.or_else(|| self.next_end(now).map(|end| end.plus(AFTER_THE_FIRST))))
    }

    /// Removes a watcher that has seen its turn. The turn is not passed on: this watcher retries next. If it is dropped
    /// instead, its owner's release advances the queue.
    pub(super) fn go(&mut self, claim: &Claim, id: u64, now: Moment) {
        // Read before the removal. A watcher with a ticket never counts as acting: its ticket keeps the turn.
        let acting = self.waiters.iter().any(|watcher| watcher.id == id && watcher.called);
        self.remove_watcher(claim, id, now);
        self.settle(now, Some(Share::new(claim)).filter(|_| acting));
    }

    /// Removes a watcher that has not seen its turn, and passes the turn on.
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
                // A live waiter tries again now. A waiter that was dropped for good must not block the queue for longer
                // than this.
                ticket.deadline = now.plus(claim.ttl.min(WAITER_LEASE));
            }
        });
    }

    fn watcher(&self, claim: &Claim, id: u64) -> Option<&Watcher> {
        let queued = self.tickets.get(claim.owner).into_iter().flat_map(|ticket| &ticket.watchers);
        queued.chain(&self.waiters).find(|watcher| watcher.id == id)
    }

    /// Calls every watcher whose turn has come, and arms one of the others for the next expiry. Every change ends with
    /// this.
    ///
    /// `acting` is the use by a watcher without a ticket that was called and is about to retry. It holds nothing yet,
    /// so without `acting` the next watcher would be called for the same room.
    pub(super) fn settle(&mut self, now: Moment, acting: Option<Share>) {
        // The common case, an uncontended key, has no waiter to wake.
        if self.tickets.is_empty() && self.waiters.is_empty() {
            return;
        }
        // This comes first, so that no watcher waits for a ticket or a holder that has expired.
        self.expire(now);
        self.call_strangers();
        self.call(acting, now);
        self.arm(now);
    }

    /// Calls the watchers that expected a local hand-off when another manager has the key: they must queue in the
    /// store.
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
            // A waiter that was called and does not retry is not being polled. It must not delay the next ones for
            // long.
            ticket.deadline = now.plus(WAITER_LEASE);
            ticket.watchers.iter_mut().for_each(|watcher| watcher.call(events));
        });
        // A watcher without a ticket never goes before a ticket.
        if self.tickets.served() == self.tickets.len() {
            self.call_without_place(usage, acting);
        }
    }

    fn call_without_place(&mut self, mut usage: Usage, acting: Option<Share>) {
        // Watchers that were called and have not retried yet count as holders, or two would be called for one place.
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
                // The watcher's next try is answered at once, with an error.
                Compatibility::Conflict(_) => watcher.call(&mut self.events),
                // No claim fits beside an exclusive use, and there may be thousands.
                Compatibility::Blocked if usage.is_exclusive() => break,
                // Without a ticket there is no order, so a younger watcher that fits is called.
                Compatibility::Blocked => {}
            }
        }
    }

    /// Returns when the next lease ends, of a holder or of a ticket.
    fn next_end(&self, now: Moment) -> Option<Moment> {
        let ends = [self.holders.soonest(), self.tickets.soonest()];
        ends.into_iter().flatten().min_by_key(|end| end.remaining(now))
    }

    /// Expiry wakes no watcher, so the first waiting one sleeps only until the next expiry.
    fn arm(&mut self, now: Moment) {
        let Some(next) = self.next_end(now) else { return };
        // One is usually enough: when it wakes, it updates the key for all.
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
