//! The queue of one key, without I/O.

use super::arrivals::{Arrivals, Member};
use super::compatibility::{Compatibility, Usage};
use super::ticket::{Ticket, Watcher};
use crate::clock::Moment;
use crate::owner::Owner;

/// The queued claims of one key, in order of arrival. A ticket is *awaited* while a watcher waits for its turn.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    arrivals: Arrivals<Owner, Ticket>,
    /// The number of tickets at the front whose turn has come, because they are compatible with the holders and with
    /// each other. After the release of a holder, the true number may be larger until the next count.
    served: usize,
    /// Whether a ticket may be for several permits. Then the permits must be counted instead of the tickets.
    several_permits: bool,
}

impl Tickets {
    pub(super) fn len(&self) -> usize {
        self.arrivals.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// Returns whether the queue ever had a ticket.
    pub(super) fn had_any(&self) -> bool {
        self.arrivals.had_any()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Ticket> {
        self.arrivals.iter()
    }

    pub(super) fn front(&self) -> Option<&Ticket> {
        self.arrivals.get(0)
    }

    pub(super) fn contains(&self, owner: Owner) -> bool {
        self.arrivals.number(&owner).is_some()
    }

    pub(super) fn get(&self, owner: Owner) -> Option<&Ticket> {
        self.arrivals.find(&owner)
    }

    /// Returns the number of tickets in front of the ticket of `owner`.
    pub(super) fn position(&self, owner: Owner) -> Option<usize> {
        self.arrivals.position(self.arrivals.number(&owner)?)
    }

    pub(super) fn push(&mut self, ticket: Ticket) {
        // The first ticket of an empty queue resets the flag.
        self.several_permits = ticket.share.permits > 1 || self.several_permits && !self.is_empty();
        self.arrivals.push(ticket.owner, ticket);
    }

    pub(super) fn remove(&mut self, owner: Owner) -> Option<Ticket> {
        let (at, ticket) = self.arrivals.remove(&owner)?;
        // A counted ticket was removed, because its claim was granted or gave up, or because it expired.
        if at < self.served {
            self.served -= 1;
        }
        Some(ticket)
    }

    pub(super) fn change<R>(&mut self, owner: Owner, change: impl FnOnce(&mut Ticket) -> R) -> Option<R> {
        self.arrivals.change(self.arrivals.number(&owner)?, change)
    }

    /// Counts the tickets whose turn has come. Returns the usage of the key as if all of them held it.
    pub(super) fn serve(&mut self, holders: Usage) -> Usage {
        // Continues from the last count, because a count from the front would visit every waiter at each check. The
        // last count is still valid. A release only makes more room. A claim that was granted since then was counted
        // before, or is compatible with all counted claims.
        let mut usage = self.usage_before(self.served, holders);
        while let Some(next) = self.arrivals.get(self.served)
            && usage.admits(next.share) == Compatibility::Compatible
        {
            usage.add(next.share);
            self.served += 1;
        }
        usage
    }

    /// Returns the usage of the key as if the first `tickets` held it. These tickets must be compatible with the
    /// holders.
    pub(super) fn usage_before(&self, tickets: usize, holders: Usage) -> Usage {
        match self.front() {
            // Claims that are compatible with each other have the same mode.
            Some(front) if tickets > 0 => holders.with(front.share.mode, self.permits_before(tickets)),
            _ => holders,
        }
    }

    /// Returns the number of permits of the first `tickets`. The sum has few terms, because at most as many tickets are
    /// served as there are permits.
    fn permits_before(&self, tickets: usize) -> usize {
        match self.several_permits {
            false => tickets,
            true => self.iter().take(tickets).map(|ticket| ticket.share.permits).sum(),
        }
    }

    /// Returns the last count of the tickets whose turn has come.
    pub(super) fn served(&self) -> usize {
        self.served
    }

    /// Resets the count of the tickets whose turn has come. This is needed if a claim acquires the key with another
    /// share than its ticket was for: there may be less room than was counted.
    pub(super) fn unserve(&mut self) {
        self.served = 0;
    }

    /// Runs `call` on each awaited ticket whose turn has come.
    pub(super) fn call(&mut self, mut call: impl FnMut(&mut Ticket)) {
        while let Some(number) = self.arrivals.first_endless()
            && self.arrivals.position(number).is_some_and(|at| at < self.served)
        {
            // After `call`, the ticket is no longer awaited, because its watchers were called. So the loop ends.
            self.arrivals.change(number, &mut call);
        }
    }

    /// Returns the first watcher that was not called yet, of the first awaited ticket.
    pub(super) fn first_watcher(&mut self) -> Option<&mut Watcher> {
        let at = self.arrivals.position(self.arrivals.first_endless()?)?;
        self.arrivals.get_mut(at)?.uncalled()
    }

    pub(super) fn soonest(&self) -> Option<Moment> {
        self.arrivals.soonest()
    }

    pub(super) fn are_all_dead(&self, now: Moment) -> bool {
        self.arrivals.latest().is_none_or(|end| end.is_past(now))
    }

    /// Drops the tickets that have expired.
    pub(super) fn expire(&mut self, now: Moment) {
        while let Some(owner) = self.arrivals.expired(now).map(|ticket| ticket.owner) {
            self.remove(owner);
        }
    }
}

impl Member for Ticket {
    /// Returns no deadline while the ticket is awaited, because such a ticket lives as long as its watcher.
    fn end(&self) -> Option<Moment> {
        (!self.is_awaited()).then_some(self.deadline)
    }
}
