//! The holders and the waiters of a key, from the names of its nodes. No I/O.

use super::names;
use crate::backend::Mode;

/// The nodes of one key that are places in its line, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<Place>);

/// A node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) mode: Mode,
    number: i32,
}

/// The standing of a place in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Holds,
    /// It waits until the node at this index is deleted.
    Behind(usize),
    /// It waits until any of the nodes before it is deleted.
    BehindAny,
    /// The key is in use in this mode, which excludes the place.
    Clashes(Mode),
}

impl Line {
    /// Sorts the names of the children of a key's directory. Nodes without a sequence number are left out.
    pub(super) fn of(children: Vec<String>) -> Self {
        let place = |name: String| {
            let (mode, number) = names::place(&name)?;
            Some(Place { name, mode, number })
        };
        let mut places: Vec<Place> = children.into_iter().filter_map(place).collect();
        let wrapped = wraps(places.iter().map(|place| place.number));
        places.sort_unstable_by(|a, b| {
            order(a.number, wrapped).cmp(&order(b.number, wrapped)).then_with(|| a.name.cmp(&b.name))
        });
        Self(places)
    }

    /// Returns the index of the first node of the owner with this mark.
    pub(super) fn find(&self, mark: &str) -> Option<usize> {
        self.0.iter().position(|place| place.name.starts_with(mark))
    }

    /// Returns the index of the node with this name.
    pub(super) fn at(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|place| place.name == name)
    }

    /// Returns all nodes of the owner with this mark.
    pub(super) fn all_of<'a>(&'a self, mark: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|place| place.name.as_str()).filter(move |name| name.starts_with(mark))
    }

    pub(super) fn get(&self, at: usize) -> Option<&Place> {
        self.0.get(at)
    }

    /// Returns all nodes, in their order.
    pub(super) fn places(&self) -> &[Place] {
        &self.0
    }

    /// Returns the nodes that hold the key.
    pub(super) fn holders(&self) -> &[Place] {
        let holding = match self.0.first().map(|first| first.mode) {
            None => 0,
            Some(Mode::Exclusive) => 1,
            Some(Mode::Shared) => self.leading(Mode::Shared),
            Some(permit @ Mode::Permit { of }) => {
                self.leading(permit).min(usize::try_from(of).unwrap_or(usize::MAX))
            }
        };
        self.0.get(..holding).unwrap_or_default()
    }

    fn leading(&self, mode: Mode) -> usize {
        self.0.iter().take_while(|place| place.mode == mode).count()
    }

    /// Returns how many places wait.
    pub(super) fn waiting(&self) -> usize {
        self.0.len() - self.holders().len()
    }

    /// Returns the standing of the place `at`.
    pub(super) fn standing(&self, at: usize) -> Option<Standing> {
        self.0.get(at).map(|place| self.behind(at, place.mode))
    }

    /// Returns the standing that a new place would have.
    pub(super) fn of_newcomer(&self, mode: Mode) -> Standing {
        self.behind(self.0.len(), mode)
    }

    /// Returns the standing of a place after the first `at` others.
    fn behind(&self, at: usize, mode: Mode) -> Standing {
        let before = &self.0[..at];
        let clashes = |place: &&Place| match mode {
            Mode::Permit { .. } => place.mode != mode,
            Mode::Exclusive | Mode::Shared => matches!(place.mode, Mode::Permit { .. }),
        };
        // This counts only for a holder: a waiter that clashes leaves, and must not make other claims fail.
        if let Some(holder) = before.first().filter(clashes) {
            return Standing::Clashes(holder.mode);
        }
        let obstacle = match mode {
            Mode::Exclusive => at.checked_sub(1),
            Mode::Shared => before.iter().rposition(|place| place.mode != Mode::Shared),
            Mode::Permit { of } => {
                let alike = before.iter().all(|place| place.mode == mode);
                if alike && at < usize::try_from(of).unwrap_or(usize::MAX) {
                    return Standing::Holds;
                }
                return Standing::BehindAny;
            }
        };
        obstacle.map_or(Standing::Holds, Standing::Behind)
    }
}

/// Returns whether the counter has passed its largest number within these: then the negative ones are the later.
///
/// Numbers that live at the same time are less than 2^31 apart, or a lock has had two thousand million holders while
/// one waited.
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

    /// Makes a line from letters: `x` exclusive, `r` reader, a digit for a permit of so many.
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
        Line::of(names)
    }

    /// Writes the standings: `h` holds, `0`.. behind that index, `*` behind any, `!` clashes.
    fn standings(line: &Line) -> String {
        let sign = |standing| match standing {
            Standing::Holds => "h".to_owned(),
            Standing::Behind(at) => at.to_string(),
            Standing::BehindAny => "*".to_owned(),
            Standing::Clashes(_) => "!".to_owned(),
        };
        (0..line.0.len()).filter_map(|at| line.standing(at)).map(sign).collect()
    }

    #[test]
    fn who_holds_and_who_waits_for_whom() {
        for (kinds, expected, holders) in [
            ("", "", 0),
            ("x", "h", 1),
            ("xxx", "h01", 1),
            ("rrr", "hhh", 3),
            ("xrr", "h00", 1),
            ("rrxr", "hh12", 2),
            ("rxrrx", "h0113", 1),
            ("22", "hh", 2),
            ("2222", "hh**", 2),
            ("1111", "h***", 1),
            ("x2", "h!", 1),
            ("2x", "h!", 1),
            ("2r", "h!", 1),
            ("23", "h!", 1),
            // A waiter that clashes leaves, and the later ones move up.
            ("3x3", "h!*", 1),
            ("3r3", "h!*", 1),
            ("x3r", "h!1", 1),
            ("x3x", "h!1", 1),
        ] {
            let line = line(kinds);
            assert_eq!((standings(&line).as_str(), line.holders().len()), (expected, holders), "{kinds}");
            assert_eq!(line.waiting(), kinds.len() - holders, "{kinds}");
        }
    }

    /// Two nodes that exclude each other never hold together, in any line of up to six.
    #[test]
    fn no_two_holders_exclude_each_other() {
        let kinds = ['x', 'r', '1', '2'];
        for number in 0..kinds.len().pow(6) {
            let text: String =
                (0..6u32).map(|at| kinds[number / kinds.len().pow(at) % kinds.len()]).collect();
            let line = line(&text);
            let holds = |at: &usize| line.standing(*at) == Some(Standing::Holds);
            let holding: Vec<Mode> = (0..6).filter(holds).map(|at| line.0[at].mode).collect();
            let fine = match holding.first() {
                Some(Mode::Exclusive) => holding.len() == 1,
                Some(Mode::Shared) => holding.iter().all(|mode| *mode == Mode::Shared),
                Some(permit @ Mode::Permit { of }) => {
                    holding.iter().all(|mode| mode == permit) && holding.len() <= *of as usize
                }
                None => false,
            };
            assert!(fine, "{text}: {holding:?}");
            assert_eq!(holding.len(), line.holders().len(), "{text}");
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
            let sorted: Vec<i32> = Line::of(shuffled).0.iter().map(|place| place.number).collect();
            assert_eq!(sorted, order);
        }
    }

    #[test]
    fn an_owner_is_found_by_its_mark() {
        let line = line("xxx");
        let second = line.0[1].name.clone();
        let mark = names::mark_of(&second).expect("a mark");
        assert_eq!(line.find(mark), Some(1));
        assert_eq!(line.all_of(mark).collect::<Vec<_>>(), [second.as_str()]);
        assert_eq!(line.of_newcomer(Mode::Exclusive), Standing::Behind(2));
        assert_eq!(line.of_newcomer(Mode::Permit { of: 1 }), Standing::Clashes(Mode::Exclusive));
    }
}
