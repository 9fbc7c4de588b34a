//! The holders of a key, without I/O.

use std::time::Duration;

use super::arrivals::{Arrivals, Member};
use super::compatibility::Usage;
use crate::backend::{FencingToken, Mode};
use crate::clock::Moment;
use crate::owner::{Owner, OwnerRecord};

/// The holders of one key, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Holders {
    arrivals: Arrivals<Name, Holder>,
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

impl Holders {
    pub(super) fn first(&self) -> Option<&Holder> {
        self.arrivals.get(0)
    }

    pub(super) fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// Returns whether the key had many holders at once.
    pub(super) fn are_large(&self) -> bool {
        self.arrivals.capacity() > 16
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Holder> {
        self.arrivals.iter()
    }

    pub(super) fn usage(&self) -> Usage {
        let count = match self.several_permits {
            false => self.len(),
            true => self.iter().map(|holder| holder.permits).sum(),
        };
        Usage::new(self.first().map(|holder| holder.mode), count)
    }

    /// Returns the holder with this owner that has released the key with `keep_for`, or has not, as `kept` says.
    pub(super) fn get(&self, owner: Owner, kept: bool) -> Option<&Holder> {
        self.arrivals.find(&(owner, kept))
    }

    pub(super) fn push(&mut self, holder: Holder) {
        // A first holder resets the flag.
        self.several_permits = holder.permits > 1 || self.several_permits && self.len() > 0;
        self.arrivals.push(holder.name(), holder);
    }

    /// Removes a holder. Returns whether it was there.
    pub(super) fn remove(&mut self, owner: Owner, kept: bool) -> bool {
        self.arrivals.remove(&(owner, kept)).is_some()
    }

    /// Changes the holder that has not released the key. The change may release the key.
    pub(super) fn change<R>(&mut self, owner: Owner, change: impl FnOnce(&mut Holder) -> R) -> Option<R> {
        let name = (owner, false);
        let number = self.arrivals.number(&name)?;
        let (answer, now_named) = self.arrivals.change(number, |holder| (change(holder), holder.name()))?;
        if now_named != name {
            self.arrivals.rename(&name, now_named);
        }
        Some(answer)
    }

    pub(super) fn soonest(&self) -> Option<Moment> {
        self.arrivals.soonest()
    }

    pub(super) fn latest(&self) -> Option<Moment> {
        self.arrivals.latest()
    }

    /// Drops the holders whose time is over.
    pub(super) fn expire(&mut self, now: Moment) {
        while let Some((owner, kept)) = self.arrivals.expired(now).map(Holder::name) {
            self.remove(owner, kept);
        }
    }
}

impl Member for Holder {
    fn end(&self) -> Option<Moment> {
        Some(self.deadline)
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
