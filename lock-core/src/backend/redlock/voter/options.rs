//! The options of a voter.

use std::time::Duration;

use crate::error::{LockError, LockErrorKind, Result};
use crate::words::duration::shown;

/// The options for which all clients of a quorum must use the same values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VoterOptions {
    /// The longest lease that a client may request. For about this time after a restart, a server does not vote. Every
    /// client must use the same value. Default: 30 s.
    pub max_ttl: Duration,
}

impl VoterOptions {
    const SHORTEST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

    /// Creates options for leases of at most `max_ttl`: 10 ms to 24 h, in whole milliseconds.
    #[must_use]
    pub const fn new(max_ttl: Duration) -> Self {
        Self { max_ttl }
    }

    /// Returns an error if `max_ttl` is outside of the limits, or has a fraction of a millisecond.
    pub(crate) fn checked(self) -> Result<Self> {
        let Self { max_ttl } = self;
        if max_ttl < Self::SHORTEST || max_ttl > Self::LONGEST {
            let [max_ttl, shortest, longest] = [max_ttl, Self::SHORTEST, Self::LONGEST].map(shown);
            let detail = format!("`max_ttl` is {max_ttl}; it can be {shortest} to {longest}");
            return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        }
        if max_ttl.subsec_nanos() % 1_000_000 != 0 {
            let detail = format!("`max_ttl` is {max_ttl:?}; it is counted in whole milliseconds");
            return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        }
        Ok(self)
    }
}

impl Default for VoterOptions {
    fn default() -> Self {
        Self::new(Duration::from_secs(30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_server_could_keep_is_refused() {
        let table = [
            (Duration::from_millis(9), false),
            (Duration::from_millis(10), true),
            (Duration::from_micros(10_500), false),
            (Duration::from_secs(24 * 60 * 60), true),
            (Duration::from_secs(24 * 60 * 60 + 1), false),
        ];
        for (max_ttl, good) in table {
            assert_eq!(VoterOptions::new(max_ttl).checked().is_ok(), good, "{max_ttl:?}");
        }
    }
}
