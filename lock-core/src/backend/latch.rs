//! The steps of a count-down latch.

use std::time::Duration;

use crate::clock::Moment;
use crate::owner::Owner;

/// One step of a count-down latch. The latch is set once to a count. When this number of different owners have counted
/// down, the latch is open.
///
/// The latch has a lease, as a lock has. Every step except [`Look`](Self::Look) extends the lease to at least `ttl`
/// from now, and never shortens it. When the lease is over, the latch counts as never set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LatchStep {
    /// Sets the count, if the latch is not set.
    Set {
        /// The number of owners that must count down; at least 1.
        count: u32,
        /// The owner that sets the latch. The same owner gets the same answer again.
        owner: Owner,
        /// The lease.
        ttl: Duration,
    },
    /// Counts down by one. Each owner counts only once, even if it sends the step several times.
    CountDown {
        /// The owner that counts.
        owner: Owner,
        /// The lease.
        ttl: Duration,
    },
    /// Keeps the latch alive, and makes the store [notify](super::Listener::opened) `process` when the latch opens.
    Wait {
        /// The process to notify; see [`Owner::process`].
        process: u128,
        /// The lease.
        ttl: Duration,
    },
    /// Reads the state and changes nothing.
    Look,
}

impl LatchStep {
    /// Returns the lease that the step requests.
    #[must_use]
    pub const fn ttl(&self) -> Option<Duration> {
        match self {
            Self::Set { ttl, .. } | Self::CountDown { ttl, .. } | Self::Wait { ttl, .. } => Some(*ttl),
            Self::Look => None,
        }
    }
}

/// The state of a latch after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatchState {
    /// The latch is not set, or its lease is over.
    Unset,
    /// The latch is set.
    Set {
        /// The number of owners that must still count down. At 0 the latch is open.
        left: u32,
        /// Whether the owner of this step has set the latch.
        by_us: bool,
        /// The time at which the request was sent.
        sent: Moment,
    },
}
