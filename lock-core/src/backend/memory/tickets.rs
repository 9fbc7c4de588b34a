//! The queue of one key, without I/O.

use std::collections::BTreeSet;

use super::arrivals::{Arrivals, Deadlines};
use super::compatibility::{Compatibility, Usage};
use super::ticket::{Ticket, Watcher};
use crate::clock::Moment;
use crate::owner::Owner;

/// The queued claims of one key, in order of arrival. There are indexes by owner, by deadline, and by place for the
/// awaited tickets.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    arrivals: Arrivals<Owner, Ticket>,
    /// The deadlines of the tickets that no watcher awaits. Each ticket is either here or in `awaited`.
    ends: Deadlines,
    /// The tickets with a watcher that was not called yet.
    awaited: BTreeSet<u64>,
    /// The number of tickets at the front whose turn has come, because they are compatible with the holders and with
    /// each other. If a holder has released since this number was computed, the true number may be larger.
    served: usize,
    /// Whether one of the tickets may be for several permits. If so, the permits must be added up.
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
        self.arrivals.get(self.position(owner)?)
    }

    /// Returns the number of tickets before the ticket of `owner`.
    pub(super) fn position(&self, owner: Owner) -> Option<usize> {
        self.arrivals.position(self.arrivals.number(&owner)?)
    }

    pub(super) fn push(&mut self, ticket: Ticket) {
        // This is reset when the queue is empty.
        self.several_permits = ticket.share.permits > 1 || self.several_permits && !self.is_empty();
        let (filed, owner) = (Filed::new(&ticket), ticket.owner);
        let number = self.arrivals.push(owner, ticket);
        self.file(number, filed);
    }

    pub(super) fn remove(&mut self, owner: Owner) -> Option<Ticket> {
        let (number, at, ticket) = self.arrivals.remove(&owner)?;
        self.unfile(number, Filed::new(&ticket));
        // One of the counted tickets was removed from the front. Its claim was granted or gave up, or the ticket
        // expired.
        if at < self.served {
            self.served -= 1;
        }
        Some(ticket)
    }

    /// Changes the ticket of `owner`.
    pub(super) fn change<R>(&mut self, owner: Owner, change: impl FnOnce(&mut Ticket) -> R) -> Option<R> {
        let number = self.arrivals.number(&owner)?;
        self.change_numbered(number, change)
    }

    fn change_numbered<R>(&mut self, number: u64, change: impl FnOnce(&mut Ticket) -> R) -> Option<R> {
        let ticket = self.arrivals.get_mut(self.arrivals.position(number)?)?;
        let before = Filed::new(ticket);
        let answer = change(ticket);
        let after = Filed::new(ticket);
        // A ticket has one entry in the indexes. With an outdated entry, `expire` would drop a ticket that is alive.
        if before != after {
            self.unfile(number, before);
            self.file(number, after);
        }
        Some(answer)
    }

    /// Counts the tickets whose turn has come. Returns the usage of the key if all of them hold it.
    pub(super) fn serve(&mut self, holders: Usage) -> Usage {
        // This continues from the last count, which is still valid. A release only makes more room. A claim that was
        // granted since then was counted here, or is compatible with all counted claims. If the count started from the
        // front, each check would visit every waiter.
        let mut usage = self.usage_before(self.served, holders);
        while let Some(next) = self.arrivals.get(self.served)
            && usage.admits(next.share) == Compatibility::Compatible
        {
            usage.add(next.share);
            self.served += 1;
        }
        usage
    }

    /// Returns the usage of the key if the first `tickets` hold it, which must be compatible with the holders.
    pub(super) fn usage_before(&self, tickets: usize, holders: Usage) -> Usage {
        match self.front() {
            // Claims that are compatible with each other have the same mode.
            Some(front) if tickets > 0 => holders.with(front.share.mode, self.permits_before(tickets)),
            _ => holders,
        }
    }

    /// Returns the number of permits of the first `tickets`, which are few: no more are served than there are permits.
    fn permits_before(&self, tickets: usize) -> usize {
        match self.several_permits {
            false => tickets,
            true => self.iter().take(tickets).map(|ticket| ticket.share.permits).sum(),
        }
    }

    /// Returns the number of tickets whose turn has come, by the last count.
    pub(super) fn served(&self) -> usize {
        self.served
    }

    /// Resets the count of the tickets whose turn has come.
    pub(super) fn unserve(&mut self) {
        // If a claim acquires the key in another mode than that of its ticket, there may be less room than counted.
        self.served = 0;
    }

    /// Runs `call` on each awaited ticket whose turn has come.
    pub(super) fn call(&mut self, mut call: impl FnMut(&mut Ticket)) {
        while let Some(number) = self.awaited.first().copied()
            && self.arrivals.position(number).is_some_and(|at| at < self.served)
        {
            // `call` calls the watchers, and the ticket is then no longer awaited. So the loop ends.
            self.change_numbered(number, &mut call);
        }
    }

    /// Returns the first watcher of the first awaited ticket.
    pub(super) fn first_watcher(&mut self) -> Option<&mut Watcher> {
        let at = self.arrivals.position(*self.awaited.first()?)?;
        self.arrivals.get_mut(at)?.uncalled()
    }

    pub(super) fn soonest(&self) -> Option<Moment> {
        self.ends.first()
    }

    pub(super) fn are_all_dead(&self, now: Moment) -> bool {
        self.awaited.is_empty() && self.ends.last().is_none_or(|end| end.is_past(now))
    }

    /// Drops the tickets that have expired.
    pub(super) fn expire(&mut self, now: Moment) {
        // An awaited ticket has no deadline, because it lives as long as its watcher.
        while let Some(number) = self.ends.past(now)
            && let Some(owner) =
                self.arrivals.position(number).and_then(|at| self.arrivals.get(at)).map(|it| it.owner)
        {
            self.remove(owner);
        }
    }

    fn file(&mut self, number: u64, filed: Filed) {
        match filed {
            Filed::Awaited => {
                self.awaited.insert(number);
            }
            Filed::Until(end) => self.ends.insert(end, number),
        }
    }

    fn unfile(&mut self, number: u64, filed: Filed) {
        match filed {
            Filed::Awaited => {
                self.awaited.remove(&number);
            }
            Filed::Until(end) => self.ends.remove(end, number),
        }
    }
}

/// The index in which a ticket is filed.
#[derive(Clone, Copy, PartialEq)]
enum Filed {
    Awaited,
    Until(Moment),
}

impl Filed {
    fn new(ticket: &Ticket) -> Self {
        if ticket.is_awaited() { Self::Awaited } else { Self::Until(ticket.deadline) }
    }
}
