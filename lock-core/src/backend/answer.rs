//! The answers of a backend.

use std::time::Duration;

#[cfg(doc)]
use super::Backend;
use super::Claim;
use super::token::FencingToken;
use crate::clock::Moment;
use crate::error::LockError;
use crate::key::Key;
#[cfg(doc)]
use crate::owner::Owner;
use crate::owner::OwnerRecord;

/// A lease that a backend granted.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// The time at which the winning request was sent. The lease counts from this time, even if the answer arrived much
    /// later.
    pub sent: Moment,
    /// The lease that the store promised, counted from `sent`, before drift is subtracted.
    pub lease: Duration,
    /// The fencing token, if the grant came with one.
    pub fence: Option<FencingToken>,
    /// The number of claims that wait in the store's queue. `None` if the store has no queue, or has not read it.
    pub waiters: Option<usize>,
}

impl Grant {
    /// Makes a grant whose lease counts from `sent`.
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

/// The state of a key because of which a claim was not granted. Usually another owner has the key.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// The remaining time of the holder's lease. The value is only a hint.
    pub remaining: Option<Duration>,
    /// The holder, if the store has its record.
    pub holder: Option<OwnerRecord>,
    /// The number of other claims that wait in the store's queue, if the store has a queue.
    pub waiters: Option<usize>,
    /// The number of waiting claims before this one, if this claim is queued.
    pub position: Option<usize>,
    /// Whether a client of another library holds the key, in a format that this library recognizes. Such a client sends
    /// no notification when it releases the key.
    pub foreign: bool,
    /// Whether the holder [may hand off](Owner::may_hand_off_to) to this claim.
    pub own: bool,
    /// The time of the last request that queued the claim or kept it in the queue; `None` if the claim is not queued.
    pub queued_at: Option<Moment>,
    /// The key that is held, for a claim of several keys. `None` for a claim of one key.
    pub key: Option<Key>,
    /// Whether the holder has released the key, and the store keeps it locked for the rest of the lease.
    pub kept: bool,
}

#[cfg(any(feature = "etcd", feature = "redis", feature = "zookeeper"))]
impl Held {
    /// Sets [`key`](Self::key) to `key` if `claim` has several keys and [`key`](Self::key) is not set.
    #[must_use]
    pub(crate) fn on_key(mut self, claim: &Claim, key: &Key) -> Self {
        if self.key.is_none() && !claim.more.is_empty() {
            self.key = Some(key.clone());
        }
        self
    }
}

/// The answer to one attempt.
#[derive(Clone, Debug)]
#[must_use]
pub enum Attempt {
    /// The claim is granted.
    Granted(Grant),
    /// The claim is not granted. Usually another owner has the key.
    Held(Held),
}

/// The answer to a heartbeat.
#[derive(Clone, Debug)]
#[must_use]
pub enum Heartbeat {
    /// The claim has reached its turn, and is granted for the full lease.
    Granted(Grant),
    /// The claim stays queued.
    Waiting(Held),
    /// The claim is no longer queued. The caller must release the owner of the claim, and not use that owner again. The
    /// caller then queues the claim with another owner.
    Gone,
}

/// A grant to renew.
#[derive(Clone, Copy, Debug)]
pub struct Renew<'a> {
    /// The claim that was granted.
    pub claim: &'a Claim,
    /// The new lease.
    pub ttl: Duration,
}

/// The answer to one renewal.
#[derive(Debug)]
#[must_use]
pub enum Renewal {
    /// The owner has the grant for `lease`, counted from `sent`.
    Renewed {
        /// The time at which the renewal was sent.
        sent: Moment,
        /// The lease that the store granted, before drift is subtracted. This lease counts, even if it differs from the
        /// requested lease. For example, it may be rounded to whole seconds, or be the timeout of a session.
        lease: Duration,
        /// The number of claims that wait in the store's queue. `None` if the store has no queue, or has not read it.
        waiters: Option<usize>,
    },
    /// The owner no longer has the grant.
    NotOwned,
    /// The store did not answer, or returned an error that leaves the result unknown.
    Unknown(LockError),
}

/// Turns a repeated or extended grant of the same owner into the answer to a renewal.
impl From<Grant> for Renewal {
    fn from(Grant { sent, lease, waiters, fence: _ }: Grant) -> Self {
        Self::Renewed { sent, lease, waiters }
    }
}

/// The outcome of a release.
///
/// [`Expired`](Self::Expired) and [`Taken`](Self::Taken) usually mean that the lock was lost before the release, and that
/// nothing had noticed it: another owner may have held the lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The owner had the grant, and has released it.
    Released,
    /// The key was free before the release: the lease had expired, or the key was deleted. If the connection broke during
    /// the release, a store may also return this because an earlier request of the same release has freed the key.
    Expired,
    /// Another owner has the key. The grant of that owner was not changed.
    Taken,
    /// Another guard in an outer scope of this task still holds the key.
    StillHeld,
}
