//! The steps of a count-down latch.

use std::time::Duration;

use crate::clock::Moment;
use crate::owner::Owner;

/// One step of a count-down latch: it is set once to a count, counted down by that many different owners, and open from
/// then on.
///
/// The latch is leased like a lock: every step but [`Look`](Self::Look) makes it live for `ttl` from then on, never
/// shorter than before. After that time without a step, the latch is as if it had never been set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LatchStep {
    /// Sets the count, if the latch is not set.
    Set {
        /// How many owners must count down; at least 1.
        count: u32,
        /// The owner that sets it; the same owner gets the same answer again.
        owner: Owner,
        /// The lease.
        ttl: Duration,
    },
    /// Counts down by one. An owner counts once, however many steps it sends.
    CountDown {
        /// The owner that counts.
        owner: Owner,
        /// The lease.
        ttl: Duration,
    },
    /// Keeps the latch alive, and has the store [notify](super::Listener::opened) `process` when it opens.
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
    /// Returns the lease that the step asks for.
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
    /// Set.
    Set {
        /// How many owners have yet to count down; 0 is open.
        left: u32,
        /// Whether this step's owner set it.
        by_us: bool,
        /// The time at which the request was sent.
        sent: Moment,
    },
}
