//! Defines the queue of one key, and computes which of its entries hold the key, and which claims must wait.
//!
//! The entries of a queue are ordered by their creation. Whether an entry holds the key depends only on the entries
//! before it. New entries are added only at the end. So an entry that holds the key keeps the key until the entry is
//! deleted. A waiter holds the key as soon as the entries before its own allow this; the store needs no further
//! request. The holders are always the first entries.

use crate::backend::Mode;

pub(crate) trait Entry {
    fn mode(&self) -> Mode;
}

impl Entry for Mode {
    fn mode(&self) -> Mode {
        *self
    }
}

/// The entries of one key, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitQueue<E>(Vec<E>);

impl<E> Default for WaitQueue<E> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<E: Entry> WaitQueue<E> {
    /// Makes a queue from entries that are already in their order.
    pub(crate) fn new(entries: Vec<E>) -> Self {
        Self(entries)
    }

    pub(crate) fn entries(&self) -> &[E] {
        &self.0
    }

    /// Returns the entries, for changes that keep the order of the entries.
    #[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "only etcd reports single changes"))]
    pub(crate) fn entries_mut(&mut self) -> &mut Vec<E> {
        &mut self.0
    }

    pub(crate) fn holders(&self) -> &[E] {
        self.0.get(..self.holding()).unwrap_or_default()
    }

    pub(crate) fn waiters(&self) -> &[E] {
        self.0.get(self.holding()..).unwrap_or_default()
    }

    fn holding(&self) -> usize {
        let alike = |mode| self.0.iter().take_while(|entry| entry.mode() == mode).count();
        match self.0.first().map(Entry::mode) {
            None => 0,
            Some(Mode::Exclusive) => 1,
            Some(Mode::Shared) => alike(Mode::Shared),
            Some(permit @ Mode::Permit { of }) => {
                alike(permit).min(usize::try_from(of).unwrap_or(usize::MAX))
            }
        }
    }

    /// Returns the index of the first entry for which `is_it` is true.
    pub(crate) fn place(&self, is_it: impl FnMut(&E) -> bool) -> Option<usize> {
        self.0.iter().position(is_it)
    }

    /// Returns whether the entry at the index `place` holds the key.
    pub(crate) fn holds(&self, place: usize) -> bool {
        place < self.holding()
    }

    /// Returns whether a new entry of `mode` would hold the key at once.
    pub(crate) fn admits(&self, mode: Mode) -> bool {
        let has_room = match mode {
            Mode::Exclusive => self.0.is_empty(),
            Mode::Shared => true,
            Mode::Permit { of } => u32::try_from(self.0.len()).is_ok_and(|taken| taken < of),
        };
        has_room && self.0.iter().all(|entry| entry.mode() == mode)
    }

    /// Returns the mode of the holders if it conflicts with `mode`: the key can never be used in both modes. A key is
    /// used either with one number of permits or without permits.
    ///
    /// Only the holders count. A program that uses no permits may wait behind them, and must not cause errors for other
    /// clients.
    pub(crate) fn clash(&self, mode: Mode) -> Option<Mode> {
        let is_permit = |mode| matches!(mode, Mode::Permit { .. });
        let clashes = |held: &Mode| *held != mode && (is_permit(*held) || is_permit(mode));
        self.0.first().map(Entry::mode).filter(clashes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug)]
    struct Letter(Mode);

    impl Entry for Letter {
        fn mode(&self) -> Mode {
            self.0
        }
    }

    fn mode(letter: char) -> Mode {
        match letter {
            'x' => Mode::Exclusive,
            'r' => Mode::Shared,
            number => Mode::Permit { of: number.to_digit(10).expect("a digit") },
        }
    }

    /// Makes a queue from letters: `x` for exclusive, `r` for shared, a digit for a permit of a semaphore of this size.
    fn queue(letters: &str) -> WaitQueue<Letter> {
        WaitQueue::new(letters.chars().map(|letter| Letter(mode(letter))).collect())
    }

    #[test]
    fn the_first_entries_hold_the_key() {
        for (letters, holding) in [
            ("", 0),
            ("x", 1),
            ("xxr", 1),
            ("rrr", 3),
            ("rrxr", 2),
            ("xrr", 1),
            ("22", 2),
            ("2222", 2),
            ("1111", 1),
            // Another program waits between claims for permits.
            ("3x3", 1),
            ("33x3", 2),
            ("23", 1),
        ] {
            let queue = queue(letters);
            assert_eq!(
                (queue.holders().len(), queue.waiters().len()),
                (holding, letters.len() - holding),
                "{letters}"
            );
            assert!((0..letters.len()).all(|place| queue.holds(place) == (place < holding)), "{letters}");
        }
    }

    #[test]
    fn a_newcomer_is_admitted_waits_or_clashes() {
        for (letters, newcomer, admitted, clashes) in [
            ("", 'x', true, false),
            ("x", 'x', false, false),
            ("x", 'r', false, false),
            ("r", 'r', true, false),
            ("r", 'x', false, false),
            ("rx", 'r', false, false),
            ("2", '2', true, false),
            ("22", '2', false, false),
            ("3x", '3', false, false),
            ("2", '3', false, true),
            ("2", 'x', false, true),
            ("2", 'r', false, true),
            ("x", '2', false, true),
            ("r", '2', false, true),
        ] {
            let (queue, mode) = (queue(letters), mode(newcomer));
            let found = (queue.admits(mode), queue.clash(mode).is_some());
            assert_eq!(found, (admitted, clashes), "{newcomer} behind {letters}");
        }
    }

    /// Checks every queue of six entries. No two holders exclude each other. A holder stays a holder whichever other
    /// entry is deleted. A new entry holds the key exactly if it is admitted.
    #[test]
    fn who_holds_is_safe_and_stays() {
        let letters = ['x', 'r', '1', '2'];
        for number in 0..letters.len().pow(6) {
            let text: String =
                (0..6u32).map(|at| letters[number / letters.len().pow(at) % letters.len()]).collect();
            let queue = queue(&text);
            let holding: Vec<Mode> = queue.holders().iter().map(Entry::mode).collect();
            let fits = match holding[0] {
                Mode::Exclusive => holding.len() == 1,
                Mode::Shared => true,
                Mode::Permit { of } => holding.len() <= of as usize,
            };
            assert!(fits && holding.iter().all(|mode| *mode == holding[0]), "{text}: {holding:?}");
            for gone in 0..6 {
                let mut fewer = queue.clone();
                fewer.entries_mut().remove(gone);
                let stay = (0..holding.len()).filter(|place| *place != gone);
                let stay = stay.map(|place| place - usize::from(place > gone));
                assert!(stay.into_iter().all(|place| fewer.holds(place)), "{text} without {gone}");
            }
            let mut before = queue.clone();
            let last = before.entries_mut().pop().expect("six");
            assert_eq!(before.admits(last.0), queue.holds(5), "{text}");
        }
    }
}
