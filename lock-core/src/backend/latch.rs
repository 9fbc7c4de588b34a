//! The steps of a count-down latch.

use std::time::Duration;

use crate::clock::Moment;
use crate::owner::Owner;

/// One step of a count-down latch: set once to a count, counted down by so many different owners, open from then on.
///
/// The latch is leased like a lock: every step but [`Look`](Self::Look) makes it live for `ttl` from then on, never
/// shorter than before. After that it is as if it had never been set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LatchStep {
    /// Sets the count, if the latch is not set.
    Set {
        /// How many owners are to count down; at least 1.
        count: u32,
        /// Who sets it; asked again by the same owner the answer is the same.
        owner: Owner,
        /// The lease.
        ttl: Duration,
    },
    /// Counts down by one. An owner counts once, however often it asks.
    CountDown {
        /// Who counts.
        owner: Owner,
        /// The lease.
        ttl: Duration,
    },
    /// Keeps the latch alive, and has `process` told ([`Listener::opened`](super::Listener::opened)) when it opens.
    Wait {
        /// Who is to be told; see [`Owner::process`].
        process: u128,
        /// The lease.
        ttl: Duration,
    },
    /// Only asks.
    Look,
}

impl LatchStep {
    /// The lease that the step asks for.
    #[must_use]
    pub const fn ttl(&self) -> Option<Duration> {
        match self {
            Self::Set { ttl, .. } | Self::CountDown { ttl, .. } | Self::Wait { ttl, .. } => Some(*ttl),
            Self::Look => None,
        }
    }
}

/// What a latch is after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatchState {
    /// Not set, or its lease has run out.
    Unset,
    /// Set: how many have yet to count down; 0 is open.
    Set {
        /// How many.
        left: u32,
        /// Whether this step's owner set it.
        by_us: bool,
        /// When the request was sent.
        sent: Moment,
    },
}
