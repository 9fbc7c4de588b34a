//! A list in order of arrival whose members are found by name, and the deadlines of its members. Pure.
//!
//! Nothing here goes through all members: with thousands of waiters on one key, whatever did would cost as much for each of
//! them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};

use crate::clock::Moment;

/// Members in order of arrival. A name stands for one member at a time.
#[derive(Debug)]
pub(super) struct Arrivals<K, T> {
    /// With their numbers, which only grow. In boxes: what leaves the middle moves few bytes of those behind it.
    members: VecDeque<(u64, Box<T>)>,
    /// The names are our own, so that nobody chooses them for their hashes; a map that is empty costs nothing.
    numbers: HashMap<K, u64, BuildHasherDefault<DefaultHasher>>,
    next: u64,
}

impl<K: Eq + Hash, T> Arrivals<K, T> {
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Adds a member at the end; its number.
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

    /// How many came before the member with this number.
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

    /// Removes a member: its number, how many came before it, and itself.
    pub(super) fn remove(&mut self, name: &K) -> Option<(u64, usize, T)> {
        // An empty map would hash the name all the same, and most keys have no queue.
        if self.is_empty() {
            return None;
        }
        let number = self.numbers.remove(name)?;
        let at = self.position(number)?;
        let (_, member) = self.members.remove(at)?;
        Some((number, at, *member))
    }

    /// Gives a member another name.
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

/// Deadlines of numbered members, in order. The store has one clock, whose moments have one number each.
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

    /// One whose deadline has passed.
    pub(super) fn past(&self, now: Moment) -> Option<u64> {
        self.0.first().filter(|(end, _)| moment(*end).is_past(now)).map(|(_, number)| *number)
    }
}

/// By which deadlines are compared.
pub(super) fn nanos(moment: Moment) -> i64 {
    moment.parts().0
}

fn moment(nanos: i64) -> Moment {
    Moment::from_parts((nanos, nanos))
}
