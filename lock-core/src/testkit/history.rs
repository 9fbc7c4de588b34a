//! Who held a key and when, checked after the fact.
//!
//! Workers record every hold; [`check`] finds two of one key that were definitely there at once, and fencing tokens
//! whose order contradicts the order in time. Only what is certain counts: a hold begins when its grant was *answered*
//! and ends when its release was *called*, or at its local deadline if that is earlier. A verdict is therefore never a
//! false alarm, whatever the network did, as long as all times are of one clock.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::backend::FencingToken;
use crate::clock::{Clock, Moment};

/// One hold of one key. Times count from the start of the [`History`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Who held it: a number of the test's choosing.
    pub worker: usize,
    /// What was held.
    pub key: String,
    /// When the acquire was called.
    pub asked: Duration,
    /// When it was answered, with the fencing token if there is one.
    pub acquired: Duration,
    /// When the release was called, or the local deadline if that came first.
    pub ended: Duration,
    /// The fencing token.
    pub fence: Option<FencingToken>,
}

/// What a history must not show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two held one key at once.
    Overlap {
        /// The one that began first.
        first: Box<Hold>,
        /// The one that began before the first had ended.
        second: Box<Hold>,
    },
    /// A fencing token is not larger than that of a hold that was granted before it was asked for.
    TokenOrder {
        /// The earlier one, with the larger token, or the same.
        first: Box<Hold>,
        /// The later one.
        second: Box<Hold>,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, first, second) = match self {
            Self::Overlap { first, second } => ("two held one key at once", first, second),
            Self::TokenOrder { first, second } => ("a later hold has no larger fencing token", first, second),
        };
        write!(f, "{what}: {first:?} and {second:?}")
    }
}

impl Error for Violation {}

/// Records holds from many tasks. Clones record into the same history.
///
/// # Examples
/// ```
/// use lock_core::clock::Clock;
/// use lock_core::testkit::history::{Hold, History};
///
/// let history = History::new(Clock::Suspend);
/// let asked = history.now();
/// // .. acquire ..
/// let acquired = history.now();
/// // .. hold, and just before the release:
/// let ended = history.now();
/// history.record(Hold { worker: 0, key: "order:42".into(), asked, acquired, ended, fence: None });
/// assert_eq!(history.check(), Ok(()));
/// ```
#[derive(Clone, Debug)]
pub struct History {
    clock: Clock,
    start: Moment,
    holds: Arc<Mutex<Vec<Hold>>>,
}

impl History {
    /// An empty history that starts now, on `clock`: the one of the backend's
    /// [`Placement`](crate::backend::Placement::clock).
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, start: clock.now(), holds: Arc::default() }
    }

    /// The time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.at(self.clock.now())
    }

    /// `moment`, such as a local deadline, as time since the start; zero when it was before.
    #[must_use]
    pub fn at(&self, moment: Moment) -> Duration {
        moment.remaining(self.start)
    }

    /// Adds a hold that has ended.
    pub fn record(&self, hold: Hold) {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner).push(hold);
    }

    /// What was recorded so far, in the order of recording.
    #[must_use]
    pub fn holds(&self) -> Vec<Hold> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs [`check`] on what was recorded so far.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), Violation> {
        check(&self.holds())
    }
}

/// Looks for two exclusive holds at once and for fencing tokens out of order, key by key, in O(n log n).
///
/// # Errors
/// The first violation.
pub fn check(holds: &[Hold]) -> Result<(), Violation> {
    let mut keys: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        keys.entry(&hold.key).or_default().push(hold);
    }
    for mut holds in keys.into_values() {
        overlap(&mut holds)?;
        token_order(&holds)?;
    }
    Ok(())
}

/// Orders `holds` by when they began.
fn overlap(holds: &mut [&Hold]) -> Result<(), Violation> {
    holds.sort_by_key(|hold| hold.acquired);
    let mut last: Option<&Hold> = None;
    // A hold that ended before its grant was answered was never definite.
    for hold in holds.iter().filter(|hold| hold.ended > hold.acquired) {
        if let Some(first) = last.filter(|last| last.ended > hold.acquired) {
            return Err(Violation::Overlap {
                first: Box::new(first.clone()),
                second: Box::new((*hold).clone()),
            });
        }
        last = Some(hold);
    }
    Ok(())
}

/// `by_answer` is ordered by when the grants were answered.
fn token_order(by_answer: &[&Hold]) -> Result<(), Violation> {
    let mut by_call = by_answer.to_vec();
    by_call.sort_by_key(|hold| hold.asked);
    let mut answered = by_answer.iter().filter(|hold| hold.fence.is_some()).peekable();
    let mut largest: Option<&Hold> = None;
    for second in by_call.into_iter().filter(|hold| hold.fence.is_some()) {
        while let Some(first) = answered.next_if(|first| first.acquired < second.asked) {
            largest = Some(largest.filter(|largest| largest.fence >= first.fence).unwrap_or(first));
        }
        if let Some(first) = largest.filter(|first| first.fence >= second.fence) {
            return Err(out_of_order(first, second));
        }
    }
    same_token(by_answer)
}

/// Two holds never have one token, also when their order in time is not certain.
fn same_token(holds: &[&Hold]) -> Result<(), Violation> {
    let mut fenced: Vec<_> = holds.iter().filter(|hold| hold.fence.is_some()).collect();
    fenced.sort_by_key(|hold| hold.fence);
    match fenced.windows(2).find(|pair| pair[0].fence == pair[1].fence) {
        Some(pair) => Err(out_of_order(pair[0], pair[1])),
        None => Ok(()),
    }
}

fn out_of_order(first: &Hold, second: &Hold) -> Violation {
    Violation::TokenOrder { first: Box::new(first.clone()), second: Box::new(second.clone()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hold(key: &str, asked: u64, acquired: u64, ended: u64, fence: u64) -> Hold {
        let [asked, acquired, ended] = [asked, acquired, ended].map(Duration::from_millis);
        Hold { worker: 0, key: key.to_owned(), asked, acquired, ended, fence: Some(FencingToken::new(fence)) }
    }

    fn is_overlap(holds: &[Hold]) -> bool {
        matches!(check(holds), Err(Violation::Overlap { .. }))
    }

    fn is_token_order(holds: &[Hold]) -> bool {
        matches!(check(holds), Err(Violation::TokenOrder { .. }))
    }

    #[test]
    fn what_is_certain_is_found() {
        assert!(is_overlap(&[hold("k", 0, 1, 10, 1), hold("k", 2, 9, 12, 2)]));
        assert!(is_overlap(&[hold("k", 0, 1, 100, 1), hold("k", 2, 2, 3, 2), hold("j", 0, 1, 2, 9)]));
        assert!(is_token_order(&[hold("k", 0, 1, 2, 7), hold("k", 3, 4, 5, 6)]));
        assert!(is_token_order(&[hold("k", 0, 1, 2, 7), hold("k", 0, 4, 5, 7)]), "one token twice");
        // Not the neighbour: the largest of all before.
        assert!(is_token_order(&[hold("k", 0, 1, 2, 9), hold("k", 2, 3, 4, 3), hold("k", 5, 6, 7, 4)]));
    }

    #[test]
    fn what_is_not_certain_is_no_violation() {
        assert_eq!(check(&[hold("k", 0, 1, 10, 1), hold("j", 0, 1, 10, 1)]), Ok(()), "two keys");
        assert_eq!(check(&[hold("k", 0, 1, 10, 1), hold("k", 2, 10, 12, 2)]), Ok(()), "one after the other");
        assert_eq!(
            check(&[hold("k", 0, 20, 10, 1), hold("k", 2, 5, 30, 2)]),
            Ok(()),
            "answered after its deadline"
        );
        assert_eq!(check(&[hold("k", 0, 5, 5, 2), hold("k", 1, 5, 6, 1)]), Ok(()), "calls at the same time");
        assert_eq!(
            check(&[hold("k", 0, 5, 6, 2), hold("k", 5, 6, 7, 1)]),
            Ok(()),
            "asked for in the same instant"
        );
        let unfenced = Hold { fence: None, ..hold("k", 3, 4, 5, 0) };
        assert_eq!(check(&[hold("k", 0, 1, 2, 7), unfenced, hold("k", 6, 7, 8, 8)]), Ok(()));
        assert_eq!(check(&[]), Ok(()));
    }

    /// A correct history: holds one after another, each asked for at some time before.
    fn correct() -> impl Strategy<Value = Vec<Hold>> {
        proptest::collection::vec((1..5u64, 1..20u64, 0..30u64), 2..60).prop_map(|steps| {
            let mut time = 100;
            let mut holds = Vec::new();
            for (number, (gap, length, wait)) in (1..).zip(steps) {
                let acquired = time + gap;
                time = acquired + length;
                holds.push(hold("k", acquired - wait, acquired, time, number));
            }
            holds
        })
    }

    proptest! {
        #[test]
        fn a_correct_history_passes_in_any_order(holds in correct().prop_shuffle()) {
            prop_assert_eq!(check(&holds), Ok(()));
        }

        #[test]
        fn a_planted_overlap_is_found(
            (mut holds, seed) in (correct(), any::<proptest::sample::Index>())
        ) {
            let at = seed.index(holds.len() - 1);
            holds[at].ended = holds[at + 1].acquired + Duration::from_nanos(1);
            prop_assert!(is_overlap(&holds));
        }

        #[test]
        fn a_swapped_token_is_found((mut holds, seed) in (correct(), any::<proptest::sample::Index>())) {
            let at = seed.index(holds.len() - 1);
            // Certain only for one that was asked for after the other was answered.
            holds[at + 1].asked = holds[at].acquired + Duration::from_nanos(1);
            let (first, second) = (holds[at].fence, holds[at + 1].fence);
            (holds[at].fence, holds[at + 1].fence) = (second, first);
            prop_assert!(is_token_order(&holds));
        }
    }
}
