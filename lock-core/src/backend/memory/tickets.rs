//! The queue of one key. Pure.

use std::collections::BTreeSet;

use super::arrivals::{Arrivals, Deadlines};
use super::compatibility::{Compatibility, Usage};
use super::ticket::{Ticket, Watcher};
use crate::clock::Moment;
use crate::owner::Owner;

/// Claims with a place, in order of arrival. Each is found by its owner, by its deadline, and by whether it is next.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    arrivals: Arrivals<Owner, Ticket>,
    /// Of those nobody waits with. Each ticket is here or in `awaited`.
    ends: Deadlines,
    /// Those that somebody waits with, and was not called.
    awaited: BTreeSet<u64>,
    /// So many from the front fit beside the holders and beside each other: it is their turn. It may be more by now, if a
    /// holder has gone.
    served: usize,
}

impl Tickets {
    pub(super) fn len(&self) -> usize {
        self.arrivals.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
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

    /// How many came before the ticket of `owner`.
    pub(super) fn position(&self, owner: Owner) -> Option<usize> {
        self.arrivals.position(self.arrivals.number(&owner)?)
    }

    pub(super) fn push(&mut self, ticket: Ticket) {
        let (filed, owner) = (Filed::of(&ticket), ticket.owner);
        let number = self.arrivals.push(owner, ticket);
        self.file(number, filed);
    }

    pub(super) fn remove(&mut self, owner: Owner) -> Option<Ticket> {
        let (number, at, ticket) = self.arrivals.remove(&owner)?;
        self.unfile(number, Filed::of(&ticket));
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
        let before = Filed::of(ticket);
        let answer = change(ticket);
        let after = Filed::of(ticket);
        if before != after {
            self.unfile(number, before);
            self.file(number, after);
        }
        Some(answer)
    }

    /// How much of the key is in use once all whose turn it is have come.
    pub(super) fn serve(&mut self, holders: Usage) -> Usage {
        let mut usage = self.usage_before(self.served, holders);
        while let Some(next) = self.arrivals.get(self.served)
            && usage.admits(next.mode) == Compatibility::Compatible
        {
            usage.add(next.mode);
            self.served += 1;
        }
        usage
    }

    /// How much of the key is in use once the first `tickets`, which fit beside the holders, have come.
    pub(super) fn usage_before(&self, tickets: usize, holders: Usage) -> Usage {
        match self.front() {
            // Those that fit beside each other are of one mode.
            Some(front) if tickets > 0 => holders.with(front.mode, tickets),
            _ => holders,
        }
    }

    /// So many from the front were served when it was looked last.
    pub(super) fn served(&self) -> usize {
        self.served
    }

    /// Whose turn it is, is to be found out anew.
    pub(super) fn unserve(&mut self) {
        self.served = 0;
    }

    /// Changes those that are awaited and whose turn it is.
    pub(super) fn call(&mut self, mut call: impl FnMut(&mut Ticket)) {
        while let Some(number) = self.awaited.first().copied()
            && self.arrivals.position(number).is_some_and(|at| at < self.served)
        {
            self.change_numbered(number, &mut call);
        }
    }

    /// The first that is awaited: its watcher that is to look next.
    pub(super) fn first_watcher(&mut self) -> Option<&mut Watcher> {
        let at = self.arrivals.position(*self.awaited.first()?)?;
        self.arrivals.get_mut(at)?.uncalled()
    }

    /// When the first of those dies that nobody waits with.
    pub(super) fn soonest(&self) -> Option<Moment> {
        self.ends.first()
    }

    pub(super) fn are_all_dead(&self, now: Moment) -> bool {
        self.awaited.is_empty() && self.ends.last().is_none_or(|end| end.is_past(now))
    }

    /// Drops those that are dead.
    pub(super) fn expire(&mut self, now: Moment) {
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

/// Under what a ticket is found.
#[derive(Clone, Copy, PartialEq)]
enum Filed {
    Awaited,
    Until(Moment),
}

impl Filed {
    fn of(ticket: &Ticket) -> Self {
        if ticket.is_awaited() { Self::Awaited } else { Self::Until(ticket.deadline) }
    }
}
