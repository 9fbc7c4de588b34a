//! The holders of a key, without I/O.

use std::time::Duration;

use super::arrivals::{Arrivals, Deadlines, nanos};
use super::compatibility::Usage;
use crate::backend::{FencingToken, Mode};
use crate::clock::Moment;
use crate::owner::{Owner, OwnerRecord};

/// The holders of one key, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// The oldest holder, which usually is the only holder.
    first: Option<Holder>,
    /// The later holders: readers, or holders of permits.
    rest: Option<Box<Rest>>,
    /// Whether a holder may have several permits. Then the permits must be counted instead of the holders.
    several_permits: bool,
}

#[derive(Debug)]
pub(super) struct Holder {
    pub(super) owner: Owner,
    pub(super) mode: Mode,
    /// The number of permits. It is 1 in any mode other than a permit.
    pub(super) permits: usize,
    pub(super) granted: Moment,
    pub(super) deadline: Moment,
    pub(super) fence: FencingToken,
    /// The number of hand-offs of the grant before `fence` was made.
    pub(super) handoffs: u64,
    pub(super) record: OwnerRecord,
    /// Whether the claim has further keys.
    pub(super) several: bool,
    /// Whether the holder has released the key with `keep_for`. Then the key no longer has an owner, but stays locked.
    pub(super) kept: bool,
}

/// An owner, and whether it has released the key with `keep_for`. The flag is part of the name, because a released key
/// may stay locked while its owner claims the key again.
type Name = (Owner, bool);

#[derive(Debug, Default)]
struct Rest {
    arrivals: Arrivals<Name, Holder>,
    ends: Deadlines,
}

impl Holders {
    pub(super) fn first(&self) -> Option<&Holder> {
        self.first.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.as_ref().map_or(0, |rest| rest.arrivals.len())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Holder> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| rest.arrivals.iter()))
    }

    pub(super) fn usage(&self) -> Usage {
        let count = match self.several_permits {
            false => self.len(),
            true => self.iter().map(|holder| holder.permits).sum(),
        };
        Usage::new(self.first.as_ref().map(|holder| holder.mode), count)
    }

    /// Returns the present grant of `owner`. If `kept`, returns the grant that the owner released with `keep_for`.
    pub(super) fn get(&self, owner: Owner, kept: bool) -> Option<&Holder> {
        if let Some(first) = self.first.as_ref().filter(|holder| holder.name() == (owner, kept)) {
            return Some(first);
        }
        let rest = self.rest.as_ref()?;
        rest.arrivals.get(rest.position(&(owner, kept))?.1)
    }

    pub(super) fn push(&mut self, holder: Holder) {
        // The first holder of a free key resets the flag.
        self.several_permits = holder.permits > 1 || self.several_permits && self.first.is_some();
        match &mut self.first {
            Some(_) => self.rest.get_or_insert_default().push(holder),
            first @ None => *first = Some(holder),
        }
    }

    /// Removes a grant of `owner`. Returns whether there was such a grant.
    pub(super) fn remove(&mut self, owner: Owner, kept: bool) -> bool {
        if self.first.as_ref().is_none_or(|holder| holder.name() != (owner, kept)) {
            return self.rest.as_mut().is_some_and(|rest| rest.remove(&(owner, kept)).is_some());
        }
        // Only one holder moves, to the front, because a holder is large.
        match &mut self.rest {
            Some(rest) => self.first = rest.pop_front(),
            None => self.first = None,
        }
        true
    }

    /// Changes the present grant of `owner`.
    pub(super) fn change<R>(&mut self, owner: Owner, change: impl FnOnce(&mut Holder) -> R) -> Option<R> {
        match &mut self.first {
            Some(first) if first.name() == (owner, false) => Some(change(first)),
            _ => self.rest.as_mut()?.change(&(owner, false), change),
        }
    }

    pub(super) fn soonest(&self) -> Option<Moment> {
        self.ends(Deadlines::first).into_iter().flatten().min_by_key(|end| nanos(*end))
    }

    pub(super) fn latest(&self) -> Option<Moment> {
        self.ends(Deadlines::last).into_iter().flatten().max_by_key(|end| nanos(*end))
    }

    fn ends(&self, of_rest: impl FnOnce(&Deadlines) -> Option<Moment>) -> [Option<Moment>; 2] {
        [self.first().map(|first| first.deadline), self.rest.as_ref().and_then(|rest| of_rest(&rest.ends))]
    }

    /// Drops the holders whose deadline has passed.
    pub(super) fn expire(&mut self, now: Moment) {
        if let Some(rest) = &mut self.rest {
            rest.expire(now);
        }
        if self.first.as_ref().is_some_and(|first| first.deadline.is_past(now)) {
            self.first = self.rest.as_mut().and_then(|rest| rest.pop_front());
        }
        if self.rest.as_ref().is_some_and(|rest| rest.arrivals.is_empty()) {
            self.rest = None;
        }
    }
}

impl Holder {
    fn name(&self) -> Name {
        (self.owner, self.kept)
    }

    pub(super) fn extend(&mut self, ttl: Duration, now: Moment) {
        if ttl > self.deadline.remaining(now) {
            self.deadline = now.plus(ttl);
        }
    }
}

impl Rest {
    /// Returns the number of a holder, and its position in `arrivals`.
    fn position(&self, name: &Name) -> Option<(u64, usize)> {
        let number = self.arrivals.number(name)?;
        Some((number, self.arrivals.position(number)?))
    }

    fn push(&mut self, holder: Holder) {
        let end = holder.deadline;
        let number = self.arrivals.push(holder.name(), holder);
        self.ends.insert(end, number);
    }

    fn remove(&mut self, name: &Name) -> Option<Holder> {
        let (number, _, holder) = self.arrivals.remove(name)?;
        self.ends.remove(holder.deadline, number);
        Some(holder)
    }

    fn pop_front(&mut self) -> Option<Holder> {
        let name = self.arrivals.get(0)?.name();
        self.remove(&name)
    }

    fn change<R>(&mut self, name: &Name, change: impl FnOnce(&mut Holder) -> R) -> Option<R> {
        let (number, at) = self.position(name)?;
        let holder = self.arrivals.get_mut(at)?;
        let before = holder.deadline;
        let answer = change(holder);
        let (end, now_named) = (holder.deadline, holder.name());
        if end != before {
            self.ends.remove(before, number);
            self.ends.insert(end, number);
        }
        if now_named != *name {
            self.arrivals.rename(name, now_named);
        }
        Some(answer)
    }

    fn expire(&mut self, now: Moment) {
        while let Some(number) = self.ends.past(now)
            && let Some(name) =
                self.arrivals.position(number).and_then(|at| self.arrivals.get(at)).map(Holder::name)
        {
            self.remove(&name);
        }
    }
}
