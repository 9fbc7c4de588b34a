//! The reasons why a voter does not vote.

use std::time::Duration;

use super::state::VoterState;
use crate::backend::redis::error::Failure;
use crate::clock::{self, Clock, Date};
use crate::error::{LockError, LockErrorKind};

/// The reason why an attempt gets no vote from a voter.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A failure that can occur on any server.
    Failure(Failure),
    /// The server may have forgotten a lease, and waits for the end of that lease.
    Quarantined {
        left: Duration,
        /// The end of the quarantine by the server's clock, since 1970.
        until: Duration,
    },
    /// The clock of the server was set, or differs from the clocks of the other voters.
    ClockJumped {
        left: Duration,
        /// Whether the server granted the claim. After the clock was set, the server may end that lease at any time.
        granted: bool,
    },
    /// The lease is longer than the `max_ttl` that all clients use.
    TooLong { ttl: Duration, max_ttl: Duration },
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Refusal {
    /// Returns the reason why the server does not vote now, or `None` if it votes, according to this client's latest
    /// information.
    pub(super) fn now(voter: &VoterState) -> Option<Self> {
        let now = Clock::Suspend.now();
        let clock = voter.distrusted(now).map(|left| Self::ClockJumped { left, granted: false });
        clock.or_else(|| {
            let left = voter.quarantine_left(now)?;
            Some(Self::Quarantined { left, until: clock::wall() + left })
        })
    }

    /// Returns the error for the caller.
    pub(super) fn to_error(&self, voter: &VoterState) -> LockError {
        let address = voter.address();
        match self {
            Self::Failure(failure) => failure.to_error(address),
            Self::Quarantined { left, until } => {
                let until = Date(*until);
                let detail = format!(
                    "redis at {address} is in quarantine until {until}, for {left:?} more: it restarted or lost its data, and \
                     does not vote before every lease that it may have forgotten is over"
                );
                // With `retry_after`, the quorum counts this error as an answer. A server in quarantine is alive, and
                // must not count as a server that does not answer.
                LockError::new(LockErrorKind::Unavailable, detail)
                    .nothing_taken()
                    .with_retry_after(Some(*left))
            }
            Self::ClockJumped { left, granted } => {
                let detail = format!(
                    "redis at {address}: clock jumped: its time cannot be trusted, and it does not vote for \
                     {left:?} more"
                );
                // The server is alive, so it must not count as a server that does not answer.
                let error = LockError::new(LockErrorKind::Unavailable, detail).with_retry_after(Some(*left));
                // If the server has granted the claim, the error is not marked with `nothing_taken`, so the quorum
                // releases the grant.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::config::Address;
    use crate::backend::redlock::VoterOptions;

    #[test]
    fn a_quarantine_has_an_end() {
        let address = Address::Tcp { host: "a".to_owned(), port: 1 };
        let voter = VoterState::new(VoterOptions::default(), address);
        let table = [
            (
                1_763_672_000_123_456,
                "redis at a:1 is in quarantine until 2025-11-20T20:53:20Z, for 1.5s more",
            ),
            (u64::MAX, "redis at a:1 is in quarantine until a time after the year 9999, for 1.5s more"),
        ];
        for (micros, expected) in table {
            let (left, until) = (Duration::from_millis(1_500), Duration::from_micros(micros));
            let error = Refusal::Quarantined { left, until }.to_error(&voter);
            assert!(error.to_string().contains(expected), "{error}");
            assert!(error.is_temporary() && error.retry_after() == Some(left), "{error:?}");
        }
    }
}
