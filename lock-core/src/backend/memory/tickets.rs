//! The queue of one key, without I/O.

use std::collections::BTreeSet;

use super::arrivals::{Arrivals, Deadlines};
use super::compatibility::{Compatibility, Usage};
use super::ticket::{Ticket, Watcher};
use crate::clock::Moment;
use crate::owner::Owner;

/// The queued claims of one key, in order of arrival. A ticket is *awaited* while a watcher waits for its turn.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    arrivals: Arrivals<Owner, Ticket>,
    /// The deadlines of the tickets that are not awaited.
    ends: Deadlines,
    /// The numbers of the tickets that are awaited.
    awaited: BTreeSet<u64>,
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
        self.arrivals.get(self.position(owner)?)
    }

    /// Returns the number of tickets in front of the ticket of `owner`.
    pub(super) fn position(&self, owner: Owner) -> Option<usize> {
        self.arrivals.position(self.arrivals.number(&owner)?)
    }

    pub(super) fn push(&mut self, ticket: Ticket) {
        // The first ticket of an empty queue resets the flag.
        self.several_permits = ticket.share.permits > 1 || self.several_permits && !self.is_empty();
        let (filed, owner) = (Filed::new(&ticket), ticket.owner);
        let number = self.arrivals.push(owner, ticket);
        self.file(number, filed);
    }

    pub(super) fn remove(&mut self, owner: Owner) -> Option<Ticket> {
        let (number, at, ticket) = self.arrivals.remove(&owner)?;
        self.unfile(number, Filed::new(&ticket));
        // A counted ticket was removed, because its claim was granted or gave up, or because it expired.
        if at < self.served {
            self.served -= 1;
        }
        Some(ticket)
    }

    pub(super) fn change<R>(&mut self, owner: Owner, change: impl FnOnce(&mut Ticket) -> R) -> Option<R> {
        let number = self.arrivals.number(&owner)?;
        self.change_numbered(number, change)
    }

    fn change_numbered<R>(&mut self, number: u64, change: impl FnOnce(&mut Ticket) -> R) -> Option<R> {
        let ticket = self.arrivals.get_mut(self.arrivals.position(number)?)?;
        let before = Filed::new(ticket);
        let answer = change(ticket);
        let after = Filed::new(ticket);
        // The ticket moves to the other index, or to its new deadline in `ends`. With an outdated deadline, `expire`
        // would drop a ticket that is alive.
        if before != after {
            self.unfile(number, before);
            self.file(number, after);
        }
        Some(answer)
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
        while let Some(number) = self.awaited.first().copied()
            && self.arrivals.position(number).is_some_and(|at| at < self.served)
        {
            // After `call`, the ticket is no longer awaited, because its watchers were called. So the loop ends.
            self.change_numbered(number, &mut call);
        }
    }

    /// Returns the first watcher that was not called yet, of the first awaited ticket.
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
        // `ends` contains no awaited ticket, because such a ticket lives as long as its watcher.
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

/// The index that contains a ticket: `awaited`, or `ends` with the deadline of the ticket.
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
