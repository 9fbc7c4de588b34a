//! Defines a list in order of arrival, whose members are found by name, and an index of the deadlines of its members.
//!
//! No operation visits all members, because there may be thousands of waiters for one key.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};

use crate::clock::Moment;

/// A list of members in order of arrival. A name belongs to one member at a time.
#[derive(Debug)]
pub(super) struct Arrivals<K, T> {
    /// The members with their numbers. A later member has a larger number. The members are boxed, so that a removal
    /// from the middle moves few bytes.
    members: VecDeque<(u64, Box<T>)>,
    /// The numbers of the members, by name. The fixed hasher is safe, because this crate makes the names, and no caller
    /// can choose names that collide.
    numbers: HashMap<K, u64, BuildHasherDefault<DefaultHasher>>,
    next: u64,
}

impl<K: Eq + Hash, T> Arrivals<K, T> {
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns the number of members for which the list has memory.
    pub(super) fn capacity(&self) -> usize {
        self.members.capacity()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns whether the list ever had a member.
    pub(super) fn had_any(&self) -> bool {
        self.next > 0
    }

    /// Adds a member at the end and returns its number.
    pub(super) fn push(&mut self, name: K, member: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.members.push_back((number, Box::new(member)));
        self.numbers.insert(name, number);
        number
    }

    pub(super) fn number(&self, name: &K) -> Option<u64> {
        self.numbers.get(name).copied()
    }

    /// Returns how many members precede the member with this number.
    pub(super) fn position(&self, number: u64) -> Option<usize> {
        self.members.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.members.get(at).map(|(_, member)| &**member)
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.members.get_mut(at).map(|(_, member)| &mut **member)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.members.iter().map(|(_, member)| &**member)
    }

    /// Removes a member. Returns its number, how many members preceded it, and the member.
    pub(super) fn remove(&mut self, name: &K) -> Option<(u64, usize, T)> {
        // Most keys have no queue. For them this check saves the hash of the name, which even an empty map would
        // compute.
        if self.is_empty() {
            return None;
        }
        let number = self.numbers.remove(name)?;
        let at = self.position(number)?;
        let (_, member) = self.members.remove(at)?;
        Some((number, at, *member))
    }

    /// Replaces the name of a member.
    pub(super) fn rename(&mut self, from: &K, to: K) {
        if let Some(number) = self.numbers.remove(from) {
            self.numbers.insert(to, number);
        }
    }
}

impl<K, T> Default for Arrivals<K, T> {
    fn default() -> Self {
        Self { members: VecDeque::new(), numbers: HashMap::default(), next: 0 }
    }
}

/// The deadlines of members, in order, with the numbers of the members. The store uses only one of the two clocks of a
/// [`Moment`], so one number is enough for a deadline.
#[derive(Debug, Default)]
pub(super) struct Deadlines(BTreeSet<(i64, u64)>);

impl Deadlines {
    pub(super) fn insert(&mut self, end: Moment, number: u64) {
        self.0.insert((nanos(end), number));
    }

    pub(super) fn remove(&mut self, end: Moment, number: u64) {
        self.0.remove(&(nanos(end), number));
    }

    pub(super) fn first(&self) -> Option<Moment> {
        self.0.first().map(|(end, _)| moment(*end))
    }

    pub(super) fn last(&self) -> Option<Moment> {
        self.0.last().map(|(end, _)| moment(*end))
    }

    /// Returns the number of a member whose deadline has passed.
    pub(super) fn past(&self, now: Moment) -> Option<u64> {
        self.0.first().filter(|(end, _)| moment(*end).is_past(now)).map(|(_, number)| *number)
    }
}

/// Returns a moment as the number by which deadlines are compared.
fn nanos(moment: Moment) -> i64 {
    moment.parts().0
}

fn moment(nanos: i64) -> Moment {
    Moment::from_parts((nanos, nanos))
}
