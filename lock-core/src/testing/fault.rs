//! How a store fails.

use crate::error::{LockError, LockErrorKind};

/// How a store that fails does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreFault {
    /// It cannot be reached, and did nothing: [`Unavailable`](LockErrorKind::Unavailable). A strategy that waits tries
    /// again.
    #[default]
    Unreachable,
    /// It does its part, and the answer is lost: [`Unavailable`](LockErrorKind::Unavailable). What was taken is given back
    /// in the background, where that is answered.
    Unanswered,
    /// Too few of its nodes answer: [`NoQuorum`](LockErrorKind::NoQuorum). A strategy that waits tries again.
    NoQuorum,
    /// It refuses, as with a wrong password: [`Unavailable`](LockErrorKind::Unavailable), and not
    /// [temporary](LockError::is_temporary), so nobody tries again.
    Refused,
}

/// The error of a call that fails so.
impl From<StoreFault> for LockError {
    fn from(fault: StoreFault) -> Self {
        let (kind, text) = match fault {
            StoreFault::Unreachable => (LockErrorKind::Unavailable, "the test has made it unreachable"),
            StoreFault::Unanswered => (LockErrorKind::Unavailable, "the test has lost its answer"),
            StoreFault::NoQuorum => (LockErrorKind::NoQuorum, "the test has taken most of the nodes down"),
            StoreFault::Refused => (LockErrorKind::Unavailable, "the test has it refuse"),
        };
        let error = Self::new(kind, text);
        match fault {
            StoreFault::Unreachable => error.nothing_taken(),
            // A node of the minority may have done its part.
            StoreFault::Unanswered | StoreFault::NoQuorum => error,
            StoreFault::Refused => error.permanent().nothing_taken(),
        }
    }
}
