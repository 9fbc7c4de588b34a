//! Defines a list in order of arrival, whose members are found by name or by deadline.
//!
//! No operation visits all members, because there may be thousands of waiters for one key.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};

use crate::clock::Moment;

/// A member of a list.
pub(super) trait Member {
    /// Returns the deadline of the member, or `None` if it has none at present.
    fn end(&self) -> Option<Moment>;
}

/// A list of members in order of arrival. A name belongs to one member at a time.
#[derive(Debug)]
pub(super) struct Arrivals<K, T> {
    /// The members with their numbers. A later member has a larger number. The members are boxed, so that a removal
    /// from the middle moves few bytes.
    members: VecDeque<(u64, Box<T>)>,
    /// The numbers of the members, by name. The fixed hasher is safe, because this crate makes the names, and no caller
    /// can choose names that collide.
    numbers: HashMap<K, u64, BuildHasherDefault<DefaultHasher>>,
    /// The deadlines of the members, in order, with the numbers of the members.
    ends: BTreeSet<(i64, u64)>,
    next: u64,
}

impl<K: Eq + Hash, T: Member> Arrivals<K, T> {
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

    /// Adds a member at the end.
    pub(super) fn push(&mut self, name: K, member: T) {
        let number = self.next;
        self.next += 1;
        self.ends.insert(filed(&member, number));
        self.members.push_back((number, Box::new(member)));
        self.numbers.insert(name, number);
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

    pub(super) fn find(&self, name: &K) -> Option<&T> {
        self.get(self.position(self.number(name)?)?)
    }

    /// Returns a member for a change that does not affect its deadline: see [`change`](Self::change).
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.members.get_mut(at).map(|(_, member)| &mut **member)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.members.iter().map(|(_, member)| &**member)
    }

    /// Changes the member with this number. If its deadline has changed, files it anew: with an outdated deadline, a
    /// member that is alive would expire.
    pub(super) fn change<R>(&mut self, number: u64, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let member = self.get_mut(self.position(number)?)?;
        let before = filed(member, number);
        let answer = change(member);
        let after = filed(member, number);
        if before != after {
            self.ends.remove(&before);
            self.ends.insert(after);
        }
        Some(answer)
    }

    /// Removes a member. Returns how many members preceded it, and the member.
    pub(super) fn remove(&mut self, name: &K) -> Option<(usize, T)> {
        // Most keys have no queue. For them this check saves the hash of the name, which even an empty map would
        // compute.
        if self.is_empty() {
            return None;
        }
        let number = self.numbers.remove(name)?;
        let at = self.position(number)?;
        let (_, member) = self.members.remove(at)?;
        self.ends.remove(&filed(&*member, number));
        Some((at, *member))
    }

    /// Replaces the name of a member.
    pub(super) fn rename(&mut self, from: &K, to: K) {
        if let Some(number) = self.numbers.remove(from) {
            self.numbers.insert(to, number);
        }
    }

    /// Returns the first deadline.
    pub(super) fn soonest(&self) -> Option<Moment> {
        self.ends.first().filter(|(end, _)| *end != ENDLESS).map(|(end, _)| moment(*end))
    }

    /// Returns the last deadline, or the end of time if a member has no deadline. Returns `None` without members.
    pub(super) fn latest(&self) -> Option<Moment> {
        self.ends.last().map(|(end, _)| moment(*end))
    }

    /// Returns the number of the first member without a deadline.
    pub(super) fn first_endless(&self) -> Option<u64> {
        self.ends.range((ENDLESS, 0)..).next().map(|(_, number)| *number)
    }

    /// Returns a member whose deadline has passed.
    pub(super) fn expired(&self, now: Moment) -> Option<&T> {
        let (_, number) = self.ends.first().filter(|(end, _)| moment(*end).is_past(now))?;
        self.get(self.position(*number)?)
    }
}

impl<K, T> Default for Arrivals<K, T> {
    fn default() -> Self {
        Self { members: VecDeque::new(), numbers: HashMap::default(), ends: BTreeSet::new(), next: 0 }
    }
}

/// The value in the index for a member without a deadline. No deadline is as late.
const ENDLESS: i64 = i64::MAX;

/// Returns the place of a member in the index. The store uses only one of the two clocks of a [`Moment`], so one number
/// is enough for a deadline.
fn filed<T: Member>(member: &T, number: u64) -> (i64, u64) {
    (member.end().map_or(ENDLESS, |end| end.parts().0), number)
}

fn moment(nanos: i64) -> Moment {
    Moment::from_parts((nanos, nanos))
}
