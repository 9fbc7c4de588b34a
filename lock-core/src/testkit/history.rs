//! Who held a key and when, checked after the fact.
//!
//! Workers record every hold; [`check()`] finds those of one key that were definitely there at once and must not have
//! been, and fencing tokens whose order contradicts the order in time. Only what is certain counts: a hold begins when its grant was *answered*
//! and ends when its release was *called*, or at its local deadline if that is earlier. A verdict is therefore never a
//! false alarm, whatever the network did, as long as all times are of one clock.

mod check;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use check::check;

use crate::backend::{FencingToken, Mode};
use crate::clock::{Clock, Moment};
use crate::sync::Mutex;

/// One hold of one key. Times count from the start of the [`History`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Who held it: a number of the test's choosing.
    pub worker: usize,
    /// What was held.
    pub key: String,
    /// How it excluded others.
    pub mode: Mode,
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
    /// Two held one key at once, and not both shared it, nor held permits of one number.
    Overlap {
        /// The one that began first.
        first: Box<Hold>,
        /// The one that began before the first had ended.
        second: Box<Hold>,
    },
    /// More held permits of one key at once than there are.
    TooMany {
        /// All who did, one more than there are permits, in the order in which they began.
        holds: Vec<Hold>,
    },
    /// A fencing token is not larger than that of a hold that was granted before it was asked for, and one of the two
    /// was alone; or two holds have the same.
    TokenOrder {
        /// The earlier one, with the larger token, or the same.
        first: Box<Hold>,
        /// The later one.
        second: Box<Hold>,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { first, second } => {
                write!(f, "two held one key at once: {first:?} and {second:?}")
            }
            Self::TooMany { holds } => write!(f, "{} held one key at once: {holds:?}", holds.len()),
            Self::TokenOrder { first, second } => {
                write!(f, "a later hold has no larger fencing token: {first:?} and {second:?}")
            }
        }
    }
}

impl Error for Violation {}

/// Records holds from many tasks. Clones record into the same history.
///
/// # Examples
/// ```
/// use lock_core::backend::Mode;
/// use lock_core::clock::Clock;
/// use lock_core::testkit::history::{Hold, History};
///
/// let history = History::new(Clock::Suspend);
/// let asked = history.now();
/// // .. acquire ..
/// let acquired = history.now();
/// // .. hold, and just before the release:
/// let ended = history.now();
/// let (key, mode) = ("order:42".to_owned(), Mode::Exclusive);
/// history.record(Hold { worker: 0, key, mode, asked, acquired, ended, fence: None });
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
        self.holds.lock().push(hold);
    }

    /// What was recorded so far, in the order of recording.
    #[must_use]
    pub fn holds(&self) -> Vec<Hold> {
        self.holds.lock().clone()
    }

    /// Runs [`check()`] on what was recorded so far.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), Violation> {
        check(&self.holds())
    }
}
