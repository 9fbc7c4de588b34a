//! Which keys were taken a moment ago.
//!
//! A claim of a key that is free takes it unseen. Where it is taken, that costs the members more than a look.

use std::time::Duration;

use crate::clock::Moment;
use crate::key::Key;
use crate::sync::Mutex;

/// Keys share these places. Where another key of the place is taken, a claim looks first.
const PLACES: usize = 256;

/// How long a key counts as taken after it was seen so.
const LASTS: Duration = Duration::from_secs(1);

/// When a key of each place was last seen to be taken.
#[derive(Debug)]
pub(super) struct Busy(Mutex<[Option<Moment>; PLACES]>);

impl Default for Busy {
    fn default() -> Self {
        Self(Mutex::new([None; PLACES]))
    }
}

impl Busy {
    /// Notes whether a key was taken when it was read.
    pub(super) fn note(&self, key: &Key, is_taken: bool, read_at: Moment) {
        self.0.lock()[place(key)] = is_taken.then_some(read_at);
    }

    /// Returns whether a key was taken a moment ago.
    pub(super) fn was_taken(&self, key: &Key, now: Moment) -> bool {
        self.0.lock()[place(key)].is_some_and(|at| now.since(at) < LASTS)
    }
}

fn place(key: &Key) -> usize {
    usize::try_from(key.hash_value() % PLACES as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_key_counts_as_taken_for_a_moment() {
        let (busy, start) = (Busy::default(), Clock::Suspend.now());
        let key = |number: usize| Key::new(&number.to_string()).expect("a key");
        let other = (1..).map(key).find(|other| place(other) != place(&key(0)));
        let keys = [key(0), other.expect("there are several places")];
        busy.note(&keys[0], true, start);
        let after = |time| keys.each_ref().map(|key| busy.was_taken(key, start.plus(time)));
        assert_eq!(after(LASTS / 2), [true, false]);
        assert_eq!(after(LASTS), [false, false]);
        busy.note(&keys[0], false, start);
        assert_eq!(after(Duration::ZERO), [false, false]);
    }
}
