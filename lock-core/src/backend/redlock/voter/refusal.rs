//! The reasons why a voter does not vote.

use std::time::Duration;

use super::state::VoterState;
use crate::backend::redis::error::Failure;
use crate::clock::{self, Clock, Date};
use crate::error::LockErrorKind;

/// Returns the reason why the server does not vote now, or `None` if it votes, according to this client's latest
/// information.
pub(super) fn now(voter: &VoterState) -> Option<Failure> {
    let now = Clock::Suspend.now();
    voter.distrusted(now).map(clock_jumped).or_else(|| {
        let left = voter.quarantine_left(now)?;
        Some(quarantined(left, clock::wall() + left))
    })
}

/// Returns the refusal of a server that may have forgotten a lease, and waits for the end of that lease. `until` is the
/// end of the quarantine by the server's clock, since 1970.
pub(super) fn quarantined(left: Duration, until: Duration) -> Failure {
    let until = Date(until);
    unavailable(
        left,
        format!(
            "the voter is in quarantine until {until}, for {left:?} more: it restarted or lost its data, and does not \
             vote before every lease that it may have forgotten is over"
        ),
    )
}

/// Returns the refusal of a server whose clock was set, or differs from the clocks of the other voters.
pub(super) fn clock_jumped(left: Duration) -> Failure {
    unavailable(
        left,
        format!("clock jumped: its time cannot be trusted, and it does not vote for {left:?} more"),
    )
}

/// Returns the refusal of a lease that is longer than the `max_ttl` that all clients use.
pub(super) fn too_long(ttl: Duration, max_ttl: Duration) -> Failure {
    let text = format!(
        "the lease of {ttl:?} is longer than max_ttl={max_ttl:?}, which the clients of this voter agreed on"
    );
    Failure::new(LockErrorKind::InvalidRequest, text)
}

/// Returns the refusal of a server that votes again after `left`. With this time, the quorum counts the refusal as an
/// answer: the server is alive, and must not count as a server that does not answer.
fn unavailable(left: Duration, text: String) -> Failure {
    Failure::new(LockErrorKind::Unavailable, text).with_retry_after(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::config::Address;

    #[test]
    fn a_quarantine_has_an_end() {
        let address = Address::Tcp { host: "a".to_owned(), port: 1 };
        let table = [
            (
                1_763_672_000_123_456,
                "redis at a:1: the voter is in quarantine until 2025-11-20T20:53:20Z, for 1.5s more",
            ),
            (
                u64::MAX,
                "redis at a:1: the voter is in quarantine until a time after the year 9999, for 1.5s more",
            ),
        ];
        for (micros, expected) in table {
            let (left, until) = (Duration::from_millis(1_500), Duration::from_micros(micros));
            let error = quarantined(left, until).to_error(&address);
            assert!(error.to_string().contains(expected), "{error}");
            assert!(error.is_temporary() && error.retry_after() == Some(left), "{error:?}");
            assert!(!error.is_ambiguous(), "{error:?}");
        }
    }
}
