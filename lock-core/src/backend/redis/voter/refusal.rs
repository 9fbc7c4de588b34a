//! Why a voter did not vote.

use std::time::Duration;

use super::super::error::Failure;
use super::state::Voter;
use crate::error::{LockError, LockErrorKind};

/// Why there is no answer to whether the key is free.
#[derive(Debug)]
pub(super) enum Refusal {
    /// As of any server.
    Failure(Failure),
    /// It may have forgotten a lease, and waits until that is over.
    Quarantined { left: Duration },
    /// Its clock was set.
    ClockJumped {
        left: Duration,
        /// The server granted the claim; what its clock makes of the lease is not known.
        granted: bool,
    },
    /// The lease is longer than the clients agreed on.
    TooLong { ttl: Duration, max_ttl: Duration },
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Refusal {
    /// The error that a caller sees.
    pub(super) fn to_error(&self, voter: &Voter) -> LockError {
        let address = voter.address();
        match self {
            Self::Failure(failure) => failure.to_error(address),
            Self::Quarantined { left } => {
                let detail = format!(
                    "redis at {address}: quarantined for {left:?} more: it restarted or lost its data, and does not \
                     vote until every lease that it may have forgotten is over"
                );
                LockError::new(LockErrorKind::Unavailable, detail)
                    .nothing_taken()
                    .with_retry_after(Some(*left))
            }
            Self::ClockJumped { left, granted } => {
                let detail = format!(
                    "redis at {address}: clock jumped: its time cannot be trusted, and it does not vote for \
                     {left:?} more"
                );
                let error = LockError::new(LockErrorKind::Unavailable, detail).with_retry_after(Some(*left));
                if *granted { error } else { error.nothing_taken() }
            }
            Self::TooLong { ttl, max_ttl } => {
                let detail = format!(
                    "redis at {address}: the lease of {ttl:?} is longer than max_ttl={max_ttl:?}, which the clients of \
                     this voter agreed on"
                );
                LockError::new(LockErrorKind::InvalidRequest, detail).nothing_taken()
            }
        }
    }
}
