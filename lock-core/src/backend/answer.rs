//! What a backend answers.

use std::fmt;
use std::time::Duration;

#[cfg(doc)]
use super::Backend;
use super::Claim;
use crate::clock::Moment;
use crate::error::LockError;
#[cfg(doc)]
use crate::owner::Owner;
use crate::owner::OwnerRecord;

/// A number that grows with every new owner of a key; the protected resource refuses smaller ones.
///
/// Where the clock of a store is set back, the order comes from the last number that it remembers. One double fault is
/// beyond that: a holder that numbered turns of its process, and dies before its next renewal while the clock is set
/// back; the next owner may then get a number that was in use.
///
/// See Martin Kleppmann, *How to do distributed locking* (2016).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, to be stored with the data that the lock protects: a write with a *smaller* one is refused, one with
    /// the same comes from the same owner. It fits a signed 64-bit column.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number for a signed 64-bit column: `UPDATE .. SET .., fence = $token WHERE .. AND fence <= $token`.
    ///
    /// No store of this crate gives one that does not fit; of a store of your own that does, it is `i64::MAX`.
    #[must_use]
    pub const fn get_i64(self) -> i64 {
        if self.0 > i64::MAX.cast_unsigned() { i64::MAX } else { self.0.cast_signed() }
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a backend gave.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// When the request that won was sent: the lease counts from here, whatever the answer took.
    pub sent: Moment,
    /// The lease that the store promised, counted from `sent`, before drift is taken off.
    pub lease: Duration,
    /// The fencing token, where it came with the grant.
    pub fence: Option<FencingToken>,
    /// How many wait in the store's queue, where it has one and looked.
    pub waiters: Option<usize>,
}

impl Grant {
    /// A grant of `lease` from `sent` on.
    #[must_use]
    pub const fn new(sent: Moment, lease: Duration) -> Self {
        Self { sent, lease, fence: None, waiters: None }
    }

    /// Sets [`fence`](Self::fence).
    #[must_use]
    pub const fn with_fence(mut self, fence: Option<FencingToken>) -> Self {
        self.fence = fence;
        self
    }

    /// Sets [`waiters`](Self::waiters).
    #[must_use]
    pub const fn with_waiters(mut self, waiters: Option<usize>) -> Self {
        self.waiters = waiters;
        self
    }
}

/// Why a claim was not granted: somebody else has the key.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// What is left of the holder's lease; a hint.
    pub remaining: Option<Duration>,
    /// Who holds, where the store knows.
    pub holder: Option<OwnerRecord>,
    /// How many wait in the store's queue, where it has one; the asking claim is not counted.
    pub waiters: Option<usize>,
    /// How many of them are before the asking claim, where it is queued.
    pub position: Option<usize>,
    /// Whether the holder [may hand off](Owner::may_hand_off_to) to the asking claim.
    pub own: bool,
    /// When the last request was sent that queued the claim or kept it in the queue; `None` where it is not queued.
    pub queued_at: Option<Moment>,
}

/// The answer to one attempt.
#[derive(Clone, Debug)]
#[must_use]
pub enum Attempt {
    /// The claim is granted.
    Granted(Grant),
    /// Somebody else has the key.
    Held(Held),
}

/// The answer to a sign of life.
#[derive(Clone, Debug)]
#[must_use]
pub enum Heartbeat {
    /// It was the claim's turn: it is granted, for the full lease.
    Granted(Grant),
    /// The place is kept.
    Waiting(Held),
    /// The claim has no place any more. Its owner is used up: it must be released, and another one asks anew.
    Gone,
}

/// One grant to renew.
#[derive(Clone, Copy, Debug)]
pub struct Renew<'a> {
    /// The claim that was granted.
    pub claim: &'a Claim,
    /// The lease from now on.
    pub ttl: Duration,
}

/// The answer to one renewal.
#[derive(Debug)]
#[must_use]
pub enum Renewal {
    /// The grant is ours for `lease`, counted from `sent`.
    Renewed {
        /// When the renewal was sent.
        sent: Moment,
        /// The lease that the store gave, before drift is taken off. A store may give another one than it was asked for:
        /// whole seconds, or the timeout of a session. What it gave counts.
        lease: Duration,
        /// How many wait in the store's queue, where it has one.
        waiters: Option<usize>,
    },
    /// The owner no longer has the grant.
    NotOwned,
    /// No answer, or an error: neither yes nor no.
    Unknown(LockError),
}

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The grant was ours and is free now.
    Released,
    /// Nobody had the key any more: the lease had run out.
    Expired,
    /// Somebody else has the key by now; it was left alone.
    Taken,
    /// Another guard of this task, further out, still holds the key.
    StillHeld,
}
