//! The queue of one key as ZooKeeper stores it: its nodes in the order of their sequence numbers. This module performs
//! no I/O.

use super::names;
use crate::backend::Mode;
use crate::backend::remote::queue_copy;
use crate::backend::remote::wait_queue::{Entry, WaitQueue};

/// The queue of one key: the nodes with a sequence number, in their order.
pub(super) type Line = WaitQueue<Place>;

/// A node in the queue of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) mode: Mode,
    number: i32,
}

impl Entry for Place {
    fn mode(&self) -> Mode {
        self.mode
    }
}

impl queue_copy::Entry for Place {
    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }
}

impl Line {
    /// Makes a queue from the names of the children of a key's directory. Leaves out nodes without a sequence number.
    pub(super) fn of_children(children: Vec<String>) -> Self {
        let place = |name: String| {
            let (mode, number) = names::place(&name)?;
            Some(Place { name, mode, number })
        };
        let mut places: Vec<Place> = children.into_iter().filter_map(place).collect();
        let wrapped = wraps(places.iter().map(|place| place.number));
        places.sort_unstable_by(|a, b| {
            order(a.number, wrapped).cmp(&order(b.number, wrapped)).then_with(|| a.name.cmp(&b.name))
        });
        Self::new(places)
    }

    /// Returns the index of the first node of the owner with this [mark](names::mark).
    pub(super) fn place_of(&self, mark: &str) -> Option<usize> {
        self.place(|place| place.name.starts_with(mark))
    }

    pub(super) fn place_named(&self, name: &str) -> Option<usize> {
        self.place(|place| place.name == name)
    }

    /// Returns all nodes of the owner with this mark.
    pub(super) fn nodes_of<'a>(&'a self, mark: &'a str) -> impl Iterator<Item = &'a str> {
        self.entries().iter().map(|place| place.name.as_str()).filter(move |name| name.starts_with(mark))
    }

    /// Returns the node that must be deleted before a waiter of `mode` at the index `at` can hold the key. Returns
    /// `None` if the deletion of any earlier node may be enough.
    pub(super) fn obstacle(&self, at: usize, mode: Mode) -> Option<&Place> {
        let before = self.entries().get(..at)?;
        match mode {
            Mode::Exclusive => before.last(),
            Mode::Shared => before.iter().rev().find(|place| place.mode != Mode::Shared),
            Mode::Permit { .. } => None,
        }
    }
}

/// Returns whether the counter has overflowed within these numbers. If so, the negative numbers are the later ones.
///
/// Nodes that exist at the same time have numbers less than 2^31 apart. Otherwise a lock would have had two thousand
/// million holders while one claim waited.
fn wraps(numbers: impl Iterator<Item = i32> + Clone) -> bool {
    let (least, most) = (numbers.clone().min(), numbers.max());
    least.zip(most).is_some_and(|(least, most)| i64::from(most) - i64::from(least) >= 1 << 31)
}

fn order(number: i32, wrapped: bool) -> i64 {
    if wrapped { i64::from(number.cast_unsigned()) } else { i64::from(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a queue from letters: `x` for exclusive, `r` for a reader, a digit for a permit of a semaphore of this
    /// size.
    fn line(kinds: &str) -> Line {
        let name = |(number, kind): (usize, char)| {
            let uuid = format!("_c_{number:08x}-89ab-cdef-0123-456789abcdef-");
            match kind {
                'x' => format!("{uuid}lock-{number:010}"),
                'r' => format!("{uuid}__READ__{number:010}"),
                of => format!("{uuid}permit-{of}-{number:010}"),
            }
        };
        let mut names: Vec<String> = kinds.chars().enumerate().map(name).collect();
        names.reverse();
        names.push("leases".to_owned());
        Line::of_children(names)
    }

    /// In `expected`, `h` is a holder. Any other character is a waiter: the number of the node whose deletion can serve
    /// the waiter, or `*` if any deletion can.
    #[test]
    fn what_a_waiter_waits_for() {
        for (kinds, expected) in [
            ("x", "h"),
            ("xxx", "h01"),
            ("rrr", "hhh"),
            ("xrr", "h00"),
            ("rrxr", "hh12"),
            ("rxrrx", "h0113"),
            ("2222", "hh**"),
            ("1111", "h***"),
            // Another program waits between claims for permits.
            ("3x3", "h0*"),
            ("3r3", "h0*"),
        ] {
            let line = line(kinds);
            let sign = |(at, place): (usize, &Place)| match line.holds(at) {
                true => "h".to_owned(),
                false => {
                    line.obstacle(at, place.mode).map_or("*".to_owned(), |place| place.number.to_string())
                }
            };
            let signs: String = line.entries().iter().enumerate().map(sign).collect();
            assert_eq!(signs, expected, "{kinds}");
        }
    }

    #[test]
    fn the_order_survives_the_wrap_of_the_counter() {
        let names = |numbers: &[i32]| {
            let name = |number: &i32| format!("_c_00000000-89ab-cdef-0123-456789abcdef-lock-{number:010}");
            numbers.iter().map(name).collect::<Vec<_>>()
        };
        for order in [
            vec![1, 2, 10],
            vec![i32::MAX - 1, i32::MAX, i32::MIN, i32::MIN + 1],
            vec![i32::MIN, i32::MIN + 1, -2_000_000_000],
            vec![-2, -1, 0, 1],
            vec![1_500_000_000, -1_500_000_000],
        ] {
            let mut shuffled = names(&order);
            shuffled.reverse();
            let sorted: Vec<i32> =
                Line::of_children(shuffled).entries().iter().map(|place| place.number).collect();
            assert_eq!(sorted, order);
        }
    }

    #[test]
    fn an_owner_is_found_by_its_mark() {
        let line = line("xxx");
        let second = line.entries()[1].name.clone();
        let mark = names::mark_of(&second).expect("a mark");
        assert_eq!((line.place_of(mark), line.place_named(&second)), (Some(1), Some(1)));
        assert_eq!(line.nodes_of(mark).collect::<Vec<_>>(), [second.as_str()]);
    }
}
