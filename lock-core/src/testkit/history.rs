//! Records the holders of a key, with times. The record is checked afterwards.
//!
//! Workers record every hold. [`check()`] finds holds of one key that certainly overlapped although they exclude each
//! other, and fencing tokens whose order contradicts the order in time.
//!
//! Only certain times count: a hold begins when its grant was *answered* and ends when its release was *called*,
//! or at its local deadline if that is earlier. So the check reports no false violation, whatever the network did, as
//! long as all times come from one clock.

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
    /// The holder: a number that the test chooses.
    pub worker: usize,
    /// The locked key.
    pub key: String,
    /// The mode of the lock, which decides what it excludes.
    pub mode: Mode,
    /// The time when the acquire was called.
    pub asked: Duration,
    /// The time when the acquire was answered, and also the request for a fencing token, if there was one.
    pub acquired: Duration,
    /// The time when the release was called, or the local deadline if that came first.
    pub ended: Duration,
    /// The fencing token, if there is one.
    pub fence: Option<FencingToken>,
}

/// A contradiction in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two holds of one key overlapped, and they were neither both shared nor both permits of the same number.
    Overlap {
        /// The hold that began first.
        first: Box<Hold>,
        /// The hold that began before the first had ended.
        second: Box<Hold>,
    },
    /// More permits of one key were held at once than there are.
    TooMany {
        /// All holds of that moment, one more than there are permits, in the order in which they began.
        holds: Vec<Hold>,
    },
    /// Of two holds, one was requested after the other was granted, but its fencing token is not larger, although one
    /// of them held the key alone. Two holds with the same token are reported in this way too.
    TokenOrder {
        /// The earlier hold, with the larger token or the same one.
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

/// A recorder of holds from many tasks. Clones record into the same history.
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
    /// Returns an empty history that starts now on `clock`, the clock of the backend's
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

    /// Returns `moment`, such as a local deadline, as the time since the start, or zero if it was before the start.
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
    /// The first violation.
    pub fn check(&self) -> Result<(), Violation> {
        check(&self.holds())
    }
}
