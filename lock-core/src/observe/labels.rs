//! Defines the values of metric labels. The set of values is small and fixed.

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
    pub(crate) const ALL: [Self; 8] = [
        Self::Acquired,
        Self::Contended,
        Self::Timeout,
        Self::Overloaded,
        Self::Skipped,
        Self::StoreError,
        Self::Cancelled,
        Self::Refused,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Contended => "contended",
            Self::Timeout => "timeout",
            Self::Overloaded => "overloaded",
            Self::Skipped => "skipped",
            Self::StoreError => "store_error",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
        }
    }

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
    pub(crate) const ALL: [Self; 5] =
        [Self::Released, Self::Lost, Self::Forced, Self::MaxHold, Self::ShutDown];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Lost => "lost",
            Self::Forced => "forced",
            Self::MaxHold => "max_hold",
            Self::ShutDown => "shut_down",
        }
    }

    pub(crate) fn from_loss(reason: LossReason) -> Self {
        match reason {
            LossReason::Expired | LossReason::Taken | LossReason::SessionEnded => Self::Lost,
            LossReason::Forced => Self::Forced,
            LossReason::MaxHold => Self::MaxHold,
            LossReason::ShutDown => Self::ShutDown,
        }
    }
}

/// All reasons of a loss. Each reason is at the index `reason as usize`.
pub(crate) const LOSSES: [LossReason; 6] = [
    LossReason::Expired,
    LossReason::Taken,
    LossReason::MaxHold,
    LossReason::Forced,
    LossReason::ShutDown,
    LossReason::SessionEnded,
];

pub(crate) fn loss(reason: LossReason) -> &'static str {
    match reason {
        LossReason::Expired => "expired",
        LossReason::Taken => "taken",
        LossReason::MaxHold => "max_hold",
        LossReason::Forced => "forced",
        LossReason::ShutDown => "shut_down",
        LossReason::SessionEnded => "session_ended",
    }
}

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
    pub(crate) const ALL: [Self; 3] = [Self::Yes, Self::NotOwned, Self::Unknown];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Yes => "renewed",
            Self::NotOwned => "not_owned",
            Self::Unknown => "unknown",
        }
    }

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
    pub(crate) const ALL: [Self; 3] = [Self::Unanswered, Self::NotOurs, Self::Abandoned];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unanswered => "unanswered",
            Self::NotOurs => "not_ours",
            Self::Abandoned => "abandoned",
        }
    }
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
    pub(crate) const COUNT: usize = 10;

    pub(crate) fn from_ask(ask: Ask) -> Self {
        match ask {
            Ask::Probe => Self::Probe,
            Ask::Try => Self::Try,
            Ask::Enqueue { .. } => Self::Enqueue,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Probe => "grab",
            Self::Try => "try_acquire",
            Self::Enqueue => "enqueue",
            Self::Heartbeat => "beat",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Fence => "fence",
            Self::Downgrade => "downgrade",
            Self::Latch => "latch",
            Self::OthersWait => "others_wait",
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

    /// Each value is found at its index in `ALL`, and has its own name.
    #[test]
    fn values_stand_in_the_order_of_their_numbers() {
        assert!(Outcome::ALL.iter().enumerate().all(|(at, one)| *one as usize == at));
        assert!(End::ALL.iter().enumerate().all(|(at, one)| *one as usize == at));
        assert!(LOSSES.iter().enumerate().all(|(at, one)| *one as usize == at));
        assert!(Renewed::ALL.iter().enumerate().all(|(at, one)| *one as usize == at));
        assert!(ReleaseError::ALL.iter().enumerate().all(|(at, one)| *one as usize == at));
        assert_eq!(Op::OthersWait as usize + 1, Op::COUNT);
        let names: std::collections::BTreeSet<_> = Outcome::ALL.map(Outcome::name).into();
        assert_eq!(names.len(), Outcome::ALL.len());
    }
}
