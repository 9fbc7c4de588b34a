//! The contract between the library and a store.
//!
//! A backend answers questions about one *claim*: may this owner have this key, is it still its, give it back. It
//! never sleeps, never retries and never decides (its own session keep-alive excepted): waiting, renewal, re-entrancy
//! and strategies are written once, above it. The bullets under **Behavior** are the contract; the suite in
//! `lock_core::testkit` (feature `testkit`) checks them on every backend.

mod erased;
pub mod memory;
#[cfg(feature = "redis")]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub mod redis;

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use erased::{BoxFuture, DynBackend};

use crate::clock::{Clock, Moment};
use crate::error::{LockError, Result};
use crate::key::Key;
use crate::owner::{Owner, OwnerRecord};

/// How a claim excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// One owner, no other.
    Exclusive,
    /// Any number of owners, but no [`Mode::Exclusive`] beside them.
    Shared,
    /// At most `of` owners.
    Permit {
        /// How many owners in all; every claim of a key must name the same number.
        of: u32,
    },
}

/// In which order waiting claims are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Queue {
    /// No order: a newcomer may be faster than one who waits.
    Barging,
    /// Strict order of arrival. The first `try_acquire` that answers *held* takes a place in the queue; it is kept
    /// until the claim is granted or released.
    Fifo,
}

/// What a backend is asked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// What is locked, namespace included.
    pub key: Key,
    /// How it excludes others.
    pub mode: Mode,
    /// How it waits.
    pub queue: Queue,
    /// Who asks; made before the first attempt and never used for another grant.
    pub owner: Owner,
    /// For how long, unless renewed.
    pub ttl: Duration,
    /// Whether the fencing token is wanted with the grant; otherwise [`Backend::fence`] makes it when it is asked for.
    pub fencing: bool,
    /// Who asks, for people.
    pub record: OwnerRecord,
    pub(crate) sent: SentMark,
}

/// Whether a request for a claim left the process.
#[derive(Debug, Default)]
pub(crate) struct SentMark(AtomicBool);

impl Clone for SentMark {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Claim {
    /// A claim of `owner` on `key`: exclusive, barging, without a fencing token.
    #[must_use]
    pub fn new(key: Key, owner: Owner, ttl: Duration, record: OwnerRecord) -> Self {
        let sent = SentMark::default();
        Self { key, mode: Mode::Exclusive, queue: Queue::Barging, owner, ttl, fencing: false, record, sent }
    }

    /// Notes that a request for this claim is about to leave the process. A backend with [`Capability::marks_sent`]
    /// calls it before the first byte: an acquire that is dropped without the mark needs no clean-up in the store.
    pub fn mark_sent(&self) {
        self.sent.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`mark_sent`](Self::mark_sent) was called in this attempt.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.sent.0.load(Ordering::Relaxed)
    }

    /// Takes the mark off, for another attempt.
    pub(crate) fn not_sent(&mut self) {
        self.sent = SentMark::default();
    }
}

/// A number that grows with every new owner of a key; the protected resource refuses smaller ones.
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
}

/// Why a claim was not granted: somebody else has the key.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// What is left of the holder's lease; a hint.
    pub remaining: Option<Duration>,
    /// Who holds, where the store knows.
    pub holder: Option<OwnerRecord>,
    /// How many wait in the store's queue, where it has one.
    pub waiters: Option<usize>,
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
    /// The grant is ours for `ttl` from the moment the renewal was sent.
    Renewed {
        /// When that was.
        sent: Moment,
    },
    /// The grant is not ours any more.
    NotMine,
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

/// Where the store lives, and so where renewal runs and which clock measures leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// In this process: renewal runs on the caller's runtime, on tokio's clock.
    Embedded,
    /// Elsewhere: renewal runs on a thread of its own, on a clock that counts suspend.
    Remote,
}

impl Placement {
    /// The clock that measures leases.
    #[must_use]
    pub fn clock(self) -> Clock {
        match self {
            Self::Embedded => Clock::Tokio,
            Self::Remote => Clock::Suspend,
        }
    }
}

/// What a backend can do. A request for more is [`Unsupported`](crate::LockErrorKind::Unsupported), before any I/O.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Capability {
    /// Name of the store, for errors and metrics: `redis`.
    pub store: &'static str,
    /// Does [`Mode::Shared`].
    pub shared: bool,
    /// Does [`Mode::Permit`].
    pub permits: bool,
    /// Does [`Queue::Fifo`].
    pub fifo: bool,
    /// Gives fencing tokens.
    pub fencing: bool,
    /// [`Backend::changed`] tells when a key may be free; otherwise a waiter tries again by backoff.
    pub notifies: bool,
    /// Calls [`Claim::mark_sent`] before it sends anything; otherwise every dropped attempt counts as sent.
    pub marks_sent: bool,
    /// Where the store lives.
    pub placement: Placement,
    /// The shortest lease that it can hold.
    pub min_ttl: Duration,
    /// The longest lease that it can hold.
    pub max_ttl: Duration,
}

impl Capability {
    /// A remote store that does [`Mode::Exclusive`] and nothing else, with leases of 10 ms to 24 h.
    #[must_use]
    pub const fn exclusive(store: &'static str) -> Self {
        Self {
            store,
            shared: false,
            permits: false,
            fifo: false,
            fencing: false,
            notifies: false,
            marks_sent: false,
            placement: Placement::Remote,
            min_ttl: Duration::from_millis(10),
            max_ttl: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// One store.
///
/// Every call may be dropped at any await point: the library then calls [`release`](Self::release) for the same owner
/// until it is answered, so a backend needs no clean-up of its own.
pub trait Backend: Send + Sync + fmt::Debug + 'static {
    /// What this backend can do. Must not change.
    fn capability(&self) -> Capability;

    /// Tries once to get the claim.
    ///
    /// # Behavior
    /// - Never waits for another holder.
    /// - Idempotent for an owner: asked again after a grant it answers *granted*, with the same fencing token, and
    ///   never shortens the lease.
    /// - With [`Queue::Fifo`] a *held* answer has taken a place in the queue.
    /// - An error that says nothing about whether the claim was granted is temporary; the caller treats it as maybe.
    /// - [`Grant::sent`] is read before the winning request is sent.
    ///
    /// # Errors
    /// The store cannot be reached, refuses, or cannot do the mode.
    fn try_acquire(&self, claim: &Claim) -> impl Future<Output = Result<Attempt>> + Send;

    /// Renews a batch; the answers are in its order, one each.
    ///
    /// # Behavior
    /// - Extends only a grant of the same owner, never shortens it, never makes one.
    /// - A part of the batch that fails is [`Renewal::Unknown`] for that part alone.
    fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> impl Future<Output = Vec<Renewal>> + Send + 'a;

    /// Gives the claim back: frees the grant, or leaves the queue.
    ///
    /// With `keep_for` the key stays taken for that long and nobody renews it (a job that ends early must not run
    /// again on the next machine).
    ///
    /// # Behavior
    /// - Touches only what this owner has; idempotent.
    ///
    /// # Errors
    /// The store cannot be reached, or did not answer: the grant may be there still.
    fn release(
        &self,
        claim: &Claim,
        keep_for: Option<Duration>,
    ) -> impl Future<Output = Result<Released>> + Send;

    /// As [`release`](Self::release), for a store in this process: done when it returns. `None` where that needs I/O.
    fn release_now(&self, _claim: &Claim, _keep_for: Option<Duration>) -> Option<Released> {
        None
    }

    /// The fencing token of a grant that did not bring one.
    ///
    /// # Behavior
    /// - Larger than every token of this key before, also after the store lost its data.
    /// - Made only while the grant is provably this owner's.
    ///
    /// # Errors
    /// [`Lost`](crate::LockErrorKind::Lost) when the grant is not ours; else as [`try_acquire`](Self::try_acquire).
    fn fence(&self, claim: &Claim) -> impl Future<Output = Result<FencingToken>> + Send;

    /// Completes when another try for the claim makes sense; a hint, which may come early, late or never.
    fn changed(&self, _claim: &Claim) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Gives up connections and tasks. Claims that are held are not touched.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}
