//! Defines the values of metric labels. The set of values is small and fixed.
//!
//! `NAMES` of each type contains the names of the values in the order of the variants, so the name of a value is
//! `NAMES[value as usize]`.

use crate::backend::{Ask, Renewal};
use crate::error::{LockError, LockErrorKind, LossReason};

/// How a request for a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acquired,
    /// The key is held, and the strategy does not wait.
    Contended,
    /// The key was held until the wait was over.
    Timeout,
    /// Too many requests already wait.
    Overloaded,
    /// The key is held, and the strategy skips.
    Skipped,
    StoreError,
    /// The future of the request was dropped.
    Cancelled,
    /// The request failed with another error, such as an invalid request or a shutdown.
    Refused,
}

impl Outcome {
    pub(crate) const NAMES: [&'static str; 8] =
        ["acquired", "contended", "timeout", "overloaded", "skipped", "store_error", "cancelled", "refused"];

    /// Returns the outcome of a request that failed with this error.
    pub(crate) fn from_error(error: &LockError) -> Self {
        match error.kind() {
            _ if error.is_skipped() => Self::Skipped,
            LockErrorKind::Contended => Self::Contended,
            LockErrorKind::TimedOut => Self::Timeout,
            LockErrorKind::Overloaded => Self::Overloaded,
            LockErrorKind::Unavailable | LockErrorKind::NoQuorum => Self::StoreError,
            LockErrorKind::Lost
            | LockErrorKind::InvalidKey
            | LockErrorKind::InvalidRequest
            | LockErrorKind::Unsupported
            | LockErrorKind::NotInstalled
            | LockErrorKind::Upgrade
            | LockErrorKind::Reentered
            | LockErrorKind::ShuttingDown => Self::Refused,
        }
    }

    /// Returns whether an operator should see the outcome as a failure. `Contended` and `Skipped` are not failures,
    /// because it is the purpose of a lock to refuse a second caller.
    pub(crate) fn is_failure(self) -> bool {
        matches!(self, Self::Timeout | Self::Overloaded | Self::StoreError | Self::Refused)
    }
}

/// How a hold of a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The last guard was released or dropped.
    Released,
    /// The lease expired, the session ended, or the store reported another owner.
    Lost,
    /// An operator released the lock by force.
    Forced,
    MaxHold,
    ShutDown,
}

impl End {
    pub(crate) const NAMES: [&'static str; 5] = ["released", "lost", "forced", "max_hold", "shut_down"];

    pub(crate) fn from_loss(reason: LossReason) -> Self {
        match reason {
            LossReason::Expired | LossReason::Taken | LossReason::SessionEnded => Self::Lost,
            LossReason::Forced => Self::Forced,
            LossReason::MaxHold => Self::MaxHold,
            LossReason::ShutDown => Self::ShutDown,
        }
    }
}

/// The names of the reasons of a loss.
pub(crate) const LOSSES: [&str; LossReason::ALL.len()] =
    ["expired", "taken", "max_hold", "forced", "shut_down", "session_ended"];

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    Yes,
    /// The store reports another owner.
    NotOwned,
    /// The store did not answer, or the answer was not recognized.
    Unknown,
}

impl Renewed {
    pub(crate) const NAMES: [&'static str; 3] = ["renewed", "not_owned", "unknown"];

    pub(crate) fn from_answer(answer: &Renewal) -> Self {
        match answer {
            Renewal::Renewed { .. } => Self::Yes,
            Renewal::NotOwned => Self::NotOwned,
            Renewal::Unknown(_) => Self::Unknown,
        }
    }
}

/// How a release failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseError {
    /// The store did not answer the caller. The release continues in the background.
    Unanswered,
    /// The lock already belonged to another holder.
    NotOurs,
    /// The retries in the background have also ended without success. The key stays locked until its ttl is over.
    Abandoned,
}

impl ReleaseError {
    pub(crate) const NAMES: [&'static str; 3] = ["unanswered", "not_ours", "abandoned"];
}

/// A call to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Probe,
    Try,
    Enqueue,
    Heartbeat,
    Renew,
    Release,
    Fence,
    Downgrade,
    Latch,
    OthersWait,
}

impl Op {
    pub(crate) const NAMES: [&'static str; 10] = [
        "grab",
        "try_acquire",
        "enqueue",
        "beat",
        "renew",
        "release",
        "fence",
        "downgrade",
        "latch",
        "others_wait",
    ];

    pub(crate) fn from_ask(ask: Ask) -> Self {
        match ask {
            Ask::Probe => Self::Probe,
            Ask::Try => Self::Try,
            Ask::Enqueue { .. } => Self::Enqueue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_a_request() {
        use LockErrorKind::{
            Contended, InvalidRequest, NoQuorum, Overloaded, Reentered, ShuttingDown, TimedOut, Unavailable,
        };
        for (kind, outcome) in [
            (Contended, Outcome::Contended),
            (TimedOut, Outcome::Timeout),
            (Overloaded, Outcome::Overloaded),
            (Unavailable, Outcome::StoreError),
            (NoQuorum, Outcome::StoreError),
            (InvalidRequest, Outcome::Refused),
            (Reentered, Outcome::Refused),
            (ShuttingDown, Outcome::Refused),
        ] {
            assert_eq!(Outcome::from_error(&LockError::new(kind, "")), outcome, "{kind:?}");
        }
        for kind in [Contended, TimedOut] {
            assert_eq!(
                Outcome::from_error(&LockError::new(kind, "").skipped()),
                Outcome::Skipped,
                "{kind:?}"
            );
        }
    }

    /// Requires that the values of a type have these names, in the order of their numbers.
    macro_rules! assert_names {
        ($names:expr, $($value:expr => $name:expr),*) => {{
            assert_eq!([$($value as usize),*].as_slice(), (0..$names.len()).collect::<Vec<_>>());
            assert_eq!($names, [$($name),*]);
        }};
    }

    #[test]
    fn values_stand_in_the_order_of_their_names() {
        assert_names!(Outcome::NAMES,
            Outcome::Acquired => "acquired", Outcome::Contended => "contended", Outcome::Timeout => "timeout",
            Outcome::Overloaded => "overloaded", Outcome::Skipped => "skipped",
            Outcome::StoreError => "store_error", Outcome::Cancelled => "cancelled", Outcome::Refused => "refused");
        assert_names!(End::NAMES,
            End::Released => "released", End::Lost => "lost", End::Forced => "forced",
            End::MaxHold => "max_hold", End::ShutDown => "shut_down");
        assert_names!(LOSSES,
            LossReason::Expired => "expired", LossReason::Taken => "taken", LossReason::MaxHold => "max_hold",
            LossReason::Forced => "forced", LossReason::ShutDown => "shut_down",
            LossReason::SessionEnded => "session_ended");
        assert_names!(Renewed::NAMES,
            Renewed::Yes => "renewed", Renewed::NotOwned => "not_owned", Renewed::Unknown => "unknown");
        assert_names!(ReleaseError::NAMES,
            ReleaseError::Unanswered => "unanswered", ReleaseError::NotOurs => "not_ours",
            ReleaseError::Abandoned => "abandoned");
        assert_names!(Op::NAMES,
            Op::Probe => "grab", Op::Try => "try_acquire", Op::Enqueue => "enqueue", Op::Heartbeat => "beat",
            Op::Renew => "renew", Op::Release => "release", Op::Fence => "fence", Op::Downgrade => "downgrade",
            Op::Latch => "latch", Op::OthersWait => "others_wait");
    }
}
