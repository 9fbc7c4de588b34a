//! Defines the ways in which a store can fail.

use crate::error::{LockError, LockErrorKind};

/// The way in which a store fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreFault {
    /// The store cannot be reached, and does nothing. The error is [`Unavailable`](LockErrorKind::Unavailable). A
    /// strategy that waits retries.
    #[default]
    Unreachable,
    /// The store executes the command, but its answer is lost. The error is
    /// [`Unavailable`](LockErrorKind::Unavailable). A lock that was granted in this way is released in the background,
    /// if the store answers the release.
    Unanswered,
    /// Too few nodes of the store answer. The error is [`NoQuorum`](LockErrorKind::NoQuorum). A strategy that waits
    /// retries.
    NoQuorum,
    /// The store refuses the command, for example because of a wrong password. The error is
    /// [`Unavailable`](LockErrorKind::Unavailable), but not [temporary](LockError::is_temporary), so no strategy
    /// retries.
    Refused,
}

/// Returns the error of a call that fails with this fault.
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
            // If there is no quorum, a node in the minority may have executed the command.
            StoreFault::Unanswered | StoreFault::NoQuorum => error,
            StoreFault::Refused => error.permanent().nothing_taken(),
        }
    }
}
