//! The ways in which a store fails.

use crate::error::{LockError, LockErrorKind};

/// How a failing store fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreFault {
    /// The store cannot be reached and does nothing: [`Unavailable`](LockErrorKind::Unavailable). A strategy that waits
    /// retries.
    #[default]
    Unreachable,
    /// The store executes the command, but its answer is lost: [`Unavailable`](LockErrorKind::Unavailable). A lock that
    /// was granted this way is released in the background, if the store answers the release.
    Unanswered,
    /// Too few nodes of the store answer: [`NoQuorum`](LockErrorKind::NoQuorum). A strategy that waits retries.
    NoQuorum,
    /// The store refuses the command, as with a wrong password: [`Unavailable`](LockErrorKind::Unavailable), but not
    /// [temporary](LockError::is_temporary), so no strategy retries.
    Refused,
}

/// Returns the error of a call that fails in this way.
impl From<StoreFault> for LockError {
    fn from(fault: StoreFault) -> Self {
        let (kind, text) = match fault {
            StoreFault::Unreachable => (LockErrorKind::Unavailable, "the test has made it unreachable"),
            StoreFault::Unanswered => (LockErrorKind::Unavailable, "the test has lost its answer"),
            StoreFault::NoQuorum => (LockErrorKind::NoQuorum, "the test has taken most of the nodes down"),
            StoreFault::Refused => (LockErrorKind::Unavailable, "the test has made it refuse"),
        };
        let error = Self::new(kind, text);
        match fault {
            StoreFault::Unreachable => error.nothing_taken(),
            // A node in the minority may have executed the command.
            StoreFault::Unanswered | StoreFault::NoQuorum => error,
            StoreFault::Refused => error.permanent().nothing_taken(),
        }
    }
}
