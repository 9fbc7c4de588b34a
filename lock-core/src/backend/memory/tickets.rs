//! The queue of one key. Pure.

use std::collections::BTreeSet;

use super::arrivals::{Arrivals, Deadlines};
use super::compatibility::{Compatibility, Usage};
use super::ticket::{Ticket, Watcher};
use crate::clock::Moment;
use crate::owner::Owner;

/// The queued claims of one key, in order of arrival. Each is found by its owner, by its deadline, and by whether it is
/// next.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    arrivals: Arrivals<Owner, Ticket>,
    /// The deadlines of the tickets that no watcher awaits. Each ticket is here or in `awaited`.
    ends: Deadlines,
    /// The tickets with a watcher that was not called.
    awaited: BTreeSet<u64>,
    /// How many tickets at the front are compatible with the holders and with each other, so that their turn has come.
    /// The true number may be larger, if a holder has left since it was computed.
    served: usize,
    /// Whether one of the tickets may be for several permits, which are then added up.
    several_permits: bool,
}

impl Tickets {
    pub(super) fn len(&self) -> usize {
        self.arrivals.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// Returns whether there ever was a ticket.
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

    /// Returns how many tickets came before the ticket of `owner`.
    pub(super) fn position(&self, owner: Owner) -> Option<usize> {
        self.arrivals.position(self.arrivals.number(&owner)?)
    }

    pub(super) fn push(&mut self, ticket: Ticket) {
        // Reset once the queue is empty.
        self.several_permits = ticket.share.permits > 1 || self.several_permits && !self.is_empty();
        let (filed, owner) = (Filed::new(&ticket), ticket.owner);
        let number = self.arrivals.push(owner, ticket);
        self.file(number, filed);
    }

    pub(super) fn remove(&mut self, owner: Owner) -> Option<Ticket> {
        let (number, at, ticket) = self.arrivals.remove(&owner)?;
        self.unfile(number, Filed::new(&ticket));
        // `served` counts from the front, and one of the tickets in front is gone: it was granted the key, gave up, or
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
        // A ticket has one index entry. An old entry that stays would let `expire` drop a ticket that is alive.
        if before != after {
            self.unfile(number, before);
            self.file(number, after);
        }
        Some(answer)
    }

    /// Serves the tickets whose turn has come, and returns the usage of the key once all of them hold it.
    pub(super) fn serve(&mut self, holders: Usage) -> Usage {
        // This continues from the last computation, which still holds: a release makes more room, and a claim that was
        // granted since then was served here, or fits beside all claims served here. Starting from the front, each
        // check would visit every waiter.
        let mut usage = self.usage_before(self.served, holders);
        while let Some(next) = self.arrivals.get(self.served)
            && usage.admits(next.share) == Compatibility::Compatible
        {
            usage.add(next.share);
            self.served += 1;
        }
        usage
    }

    /// Returns the usage of the key once the first `tickets`, which are compatible with the holders, hold it.
    pub(super) fn usage_before(&self, tickets: usize, holders: Usage) -> Usage {
        match self.front() {
            // Claims that are compatible with each other have one mode.
            Some(front) if tickets > 0 => holders.with(front.share.mode, self.permits_before(tickets)),
            _ => holders,
        }
    }

    /// Returns the use by the first `tickets`. No more tickets are served than there are permits.
    fn permits_before(&self, tickets: usize) -> usize {
        match self.several_permits {
            false => tickets,
            true => self.iter().take(tickets).map(|ticket| ticket.share.permits).sum(),
        }
    }

    /// Returns how many tickets at the front were served by the last computation.
    pub(super) fn served(&self) -> usize {
        self.served
    }

    /// Discards the last computation of the claims whose turn has come.
    pub(super) fn unserve(&mut self) {
        // A claim that acquires the key in a mode other than that of its ticket may leave less room than was computed.
        self.served = 0;
    }

    /// Changes the awaited tickets whose turn has come.
    pub(super) fn call(&mut self, mut call: impl FnMut(&mut Ticket)) {
        while let Some(number) = self.awaited.first().copied()
            && self.arrivals.position(number).is_some_and(|at| at < self.served)
        {
            // A ticket whose watchers were called is no longer awaited, so the loop ends.
            self.change_numbered(number, &mut call);
        }
    }

    /// Returns the first watcher of the first awaited ticket.
    pub(super) fn first_watcher(&mut self) -> Option<&mut Watcher> {
        let at = self.arrivals.position(*self.awaited.first()?)?;
        self.arrivals.get_mut(at)?.uncalled()
    }

    /// Returns the earliest deadline of the tickets that no watcher awaits.
    pub(super) fn soonest(&self) -> Option<Moment> {
        self.ends.first()
    }

    pub(super) fn are_all_dead(&self, now: Moment) -> bool {
        self.awaited.is_empty() && self.ends.last().is_none_or(|end| end.is_past(now))
    }

    /// Drops the tickets that have expired.
    pub(super) fn expire(&mut self, now: Moment) {
        // An awaited ticket is in no index of deadlines: it lives for as long as its watcher does.
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
