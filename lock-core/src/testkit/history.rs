//! Records which worker held which key and when, and checks the record afterwards.
//!
//! Workers record every hold. [`check()`] finds two sorts of faults: holds of one key that certainly overlapped
//! although they exclude each other, and fencing tokens whose order contradicts the order in time.
//!
//! A hold counts only for the time in which the worker certainly held the key. This time begins when the acquire was
//! *answered*. It ends when the release was *called*, or at the local deadline if that is earlier. So delays in the
//! network cause no false violation, if all times come from one clock.

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

/// One hold of one key. Times are counted from the start of the [`History`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The number of the holder, which the test chooses.
    pub worker: usize,
    /// The locked key.
    pub key: String,
    /// The mode of the lock, which decides which other holds it excludes.
    pub mode: Mode,
    /// The time when the acquire was called.
    pub asked: Duration,
    /// The time when the acquire was answered. If the worker then requested a fencing token, the time of that answer.
    pub acquired: Duration,
    /// The time when the release was called, or the local deadline if it is earlier.
    pub ended: Duration,
    /// The fencing token, if there is one.
    pub fence: Option<FencingToken>,
}

/// A contradiction in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two holds of one key overlapped although they exclude each other: they were neither both shared, nor both
    /// permits of the same semaphore size.
    Overlap {
        /// The hold that began first.
        first: Box<Hold>,
        /// The hold that began before the first hold had ended.
        second: Box<Hold>,
    },
    /// More permits of one key were held at once than there are.
    TooMany {
        /// All holds at that moment, in the order in which they began. There is one hold more than there are permits.
        holds: Vec<Hold>,
    },
    /// Two fencing tokens are in the wrong order. The later hold was requested after the earlier hold was granted, and
    /// one of the two allows no other holder, but the later token is not larger. Two holds with the same token are also
    /// reported in this way.
    TokenOrder {
        /// The earlier hold. Its token is larger than the later token, or the same.
        first: Box<Hold>,
        /// The later hold.
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

/// Records the holds of many tasks. Clones record into the same history.
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
    /// Returns an empty history that starts now on `clock`. Use the clock of the backend's
    /// [`Placement`](crate::backend::Placement::clock).
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, start: clock.now(), holds: Arc::default() }
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.at(self.clock.now())
    }

    /// Converts `moment`, such as a local deadline, to the time since the start. Returns zero if `moment` was before
    /// the start.
    #[must_use]
    pub fn at(&self, moment: Moment) -> Duration {
        moment.remaining(self.start)
    }

    /// Records a hold that has ended.
    pub fn record(&self, hold: Hold) {
        self.holds.lock().push(hold);
    }

    /// Returns the holds recorded so far, in the order of recording.
    #[must_use]
    pub fn holds(&self) -> Vec<Hold> {
        self.holds.lock().clone()
    }

    /// Runs [`check()`] on the holds recorded so far.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn check(&self) -> Result<(), Violation> {
        check(&self.holds())
    }
}
