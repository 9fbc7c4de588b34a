//! The places of the groups of one fair lock, found by owner and by what they wait for.

use std::collections::{BTreeMap, BTreeSet};

use crate::owner::Owner;

/// What the store knows of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing. It asks after those that came before it.
    None,
    /// Its head asks for it, or has been told to.
    Asking,
    /// It is queued as this owner.
    Queued(Owner),
    /// It has the grant of this owner.
    Held(Owner),
    /// The grant of this owner is being released, although somebody waits for it, or for the answer.
    Ended(Owner),
    /// The same, and the release names the owner that comes next. Its entry in the store's queue is that of this group,
    /// and nobody asks after it before the release is answered: a store that has not executed that knows of none.
    Succeeds { ended: Owner, next: Owner },
}

/// The answer to a request of a group, which was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    Queued(Owner),
    /// It stands directly behind this owner.
    Behind(Owner),
    /// It has no place.
    Nowhere,
}

/// An index of the groups, which have numbers in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Few as a rule: a search costs less than a hash.
    owners: BTreeMap<(u128, u64), u64>,
    none: BTreeSet<u64>,
    asking: Option<u64>,
    queued: usize,
    ended: BTreeSet<u64>,
}

impl Places {
    pub(super) fn add(&mut self, number: u64, place: Place) {
        match place {
            Place::None => drop(self.none.insert(number)),
            Place::Asking => self.asking = Some(number),
            Place::Queued(_) => self.queued += 1,
            Place::Held(_) => {}
            Place::Ended(_) | Place::Succeeds { .. } => drop(self.ended.insert(number)),
        }
        for owner in owners(place) {
            self.owners.insert(owner.order(), number);
        }
    }

    pub(super) fn remove(&mut self, number: u64, place: Place) {
        match place {
            Place::None => drop(self.none.remove(&number)),
            Place::Asking => self.asking = None,
            Place::Queued(_) => self.queued -= 1,
            Place::Held(_) => {}
            Place::Ended(_) | Place::Succeeds { .. } => drop(self.ended.remove(&number)),
        }
        for owner in owners(place) {
            if self.of(owner) == Some(number) {
                self.owners.remove(&owner.order());
            }
        }
    }

    /// Returns the group that has this owner.
    pub(super) fn of(&self, owner: Owner) -> Option<u64> {
        self.owners.get(&owner.order()).copied()
    }

    /// Returns the group that asks. There is one at most: the order of two answers says nothing of the order of two
    /// places.
    pub(super) fn asking(&self) -> Option<u64> {
        self.asking
    }

    /// Returns the group that asks next. While an earlier one asks, or waits for the end of its grant to ask again,
    /// there is none: a newcomer that asked would overtake it.
    pub(super) fn next(&self) -> Option<u64> {
        if self.asking.is_some() || !self.ended.is_empty() {
            return None;
        }
        self.none.first().copied()
    }

    /// Returns the groups whose grant is being released although somebody waits for it, or for the answer.
    pub(super) fn ended(&self) -> impl Iterator<Item = u64> {
        self.ended.iter().copied()
    }

    /// Returns whether a group is in the store's queue.
    pub(super) fn is_any_queued(&self) -> bool {
        self.queued > 0
    }
}

/// Returns the owners by which a place is known.
pub(super) fn owners(place: Place) -> impl Iterator<Item = Owner> {
    let both = match place {
        Place::None | Place::Asking => [None, None],
        Place::Queued(owner) | Place::Held(owner) | Place::Ended(owner) => [Some(owner), None],
        Place::Succeeds { ended, next } => [Some(ended), Some(next)],
    };
    both.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::OwnerSource;

    #[test]
    fn the_first_without_a_place_asks_once_nobody_before_it_does() {
        let owners = OwnerSource::new().expect("random bytes");
        let [one, two] = [owners.mint_grouped(), owners.mint_grouped()];
        for (others, next) in [
            (&[][..], Some(3)),
            (&[(9, Place::None)], Some(3)),
            (&[(1, Place::None)], Some(1)),
            (&[(1, Place::Queued(one)), (2, Place::Held(two))], Some(3)),
            (&[(1, Place::Asking)], None),
            (&[(9, Place::Asking)], None),
            (&[(1, Place::Queued(one)), (2, Place::Ended(two))], None),
            (&[(1, Place::Succeeds { ended: one, next: two })], None),
        ] {
            let mut places = Places::default();
            places.add(3, Place::None);
            others.iter().for_each(|(number, place)| places.add(*number, *place));
            assert_eq!(places.next(), next, "{others:?}");
            others.iter().for_each(|(number, place)| places.remove(*number, *place));
            assert_eq!(places.next(), Some(3), "{others:?}");
            places.remove(3, Place::None);
            assert_eq!((places.next(), places.of(one), places.is_any_queued()), (None, None, false));
        }
    }
}
