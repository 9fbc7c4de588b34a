//! The contract between the library and a store.
//!
//! A backend answers questions about one *claim*: may this owner have this key, is it still its, give it back. It
//! never sleeps, never retries and never decides (its own session keep-alive excepted): waiting, renewal, re-entrancy
//! and strategies are written once, above it. The bullets under **Behavior** are the contract; the suite in
//! `lock_core::testkit` (feature `testkit`) checks them on every backend.

mod erased;
mod latch;
pub mod memory;
#[cfg(feature = "redis")]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub mod redis;

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use erased::{BoxFuture, DynBackend};
pub use latch::{LatchState, LatchStep};

use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, Result};
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
    /// Strict order of arrival: behind everybody who has a place in the queue.
    Fifo,
}

/// For so long at most the store keeps the place of a waiter that gives no sign, and a waiter that was granted the key
/// by its place alone: what a dead waiter may cost those behind it. Less where its ttl is shorter.
pub const PLACE_LEASE: Duration = Duration::from_secs(2);

/// What a backend is asked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// What is locked, namespace included.
    pub key: Key,
    /// Further keys, locked with it all or none: sorted, none twice, all after `key`. Empty for most claims; else the
    /// claim is exclusive.
    pub more: Arc<[Key]>,
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
    /// Which holder of this process has the grant: 0 for the one that the store gave it to, counted up with every
    /// hand-off inside the process. Each of them has a fencing token of its own.
    pub turn: u64,
    pub(crate) marks: Marks,
}

/// What happened to a claim, noted by those who only have a reference to it.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// A request for it left the process.
    sent: AtomicBool,
    /// Its fencing token is ahead of the store's clock.
    fence_ahead: AtomicBool,
    /// The last fencing token that was numbered here; 0 for none.
    own_fence: AtomicU64,
}

impl Clone for Marks {
    fn clone(&self) -> Self {
        Self {
            sent: AtomicBool::new(self.sent.load(Ordering::Relaxed)),
            fence_ahead: AtomicBool::new(self.fence_ahead.load(Ordering::Relaxed)),
            own_fence: AtomicU64::new(self.own_fence.load(Ordering::Relaxed)),
        }
    }
}

impl Claim {
    /// A claim of `owner` on `key`: exclusive, barging, without a fencing token.
    #[must_use]
    pub fn new(key: Key, owner: Owner, ttl: Duration, record: OwnerRecord) -> Self {
        Self {
            key,
            more: Arc::default(),
            mode: Mode::Exclusive,
            queue: Queue::Barging,
            owner,
            ttl,
            fencing: false,
            record,
            turn: 0,
            marks: Marks::default(),
        }
    }

    /// Every key of the claim, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> + Clone {
        std::iter::once(&self.key).chain(self.more.iter())
    }

    /// The lease of a grant that a place in the queue brings: the ttl, at most [`PLACE_LEASE`].
    #[must_use]
    pub fn place_lease(&self) -> Duration {
        self.ttl.min(PLACE_LEASE)
    }

    /// Notes that a request for this claim is about to leave the process. A backend with [`Capability::marks_sent`]
    /// calls it before the first byte: an acquire that is dropped without the mark needs no clean-up in the store.
    pub fn mark_sent(&self) {
        self.marks.sent.store(true, Ordering::Relaxed);
    }

    /// Whether [`mark_sent`](Self::mark_sent) was called in this attempt.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.marks.sent.load(Ordering::Relaxed)
    }

    /// Takes the mark off, for another attempt.
    pub(crate) fn not_sent(&mut self) {
        *self.marks.sent.get_mut() = false;
    }

    /// Notes that the fencing token which the store just gave is ahead of its clock (which was set back): then no turn
    /// in this process may count on from it.
    pub fn mark_fence_ahead(&self) {
        self.marks.fence_ahead.store(true, Ordering::Relaxed);
    }

    /// Whether [`mark_fence_ahead`](Self::mark_fence_ahead) was called.
    #[must_use]
    pub fn is_fence_ahead(&self) -> bool {
        self.marks.fence_ahead.load(Ordering::Relaxed)
    }

    /// The last fencing token of this grant that was numbered in this process, without the store. Release, renewal and
    /// [`fence`](Backend::fence) raise the last token that the store knows to it.
    #[must_use]
    pub fn own_fence(&self) -> Option<FencingToken> {
        Some(self.marks.own_fence.load(Ordering::Relaxed)).filter(|number| *number > 0).map(FencingToken)
    }

    /// Notes a token that was numbered in this process; see [`Capability::fence_is_time`].
    pub fn number_fence(&self, token: FencingToken) {
        self.marks.own_fence.fetch_max(token.0, Ordering::Relaxed);
    }
}

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
    /// How many of them are before the asking claim, where it has a place.
    pub position: Option<usize>,
    /// Whether the holder [takes turns](Owner::takes_turns_with) with the asking claim.
    pub own: bool,
    /// When the request was sent that took or kept the claim's place in the queue; `None` without a place.
    pub place: Option<Moment>,
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
pub enum Beat {
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
    /// The grant is ours for `ttl` from the moment the renewal was sent.
    Renewed {
        /// When that was.
        sent: Moment,
        /// How many wait in the store's queue, where it has one.
        waiters: Option<usize>,
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
    /// Does [`Mode::Shared`], and [`Backend::downgrade`].
    pub shared: bool,
    /// Does [`Mode::Permit`].
    pub permits: bool,
    /// Does [`Queue::Fifo`]: [`Backend::enqueue`] takes a place.
    pub fifo: bool,
    /// A place lives on [`Backend::beat`] and is served through [`Ear::granted`], for barging claims too. Otherwise a
    /// place lives while [`Backend::changed`] is awaited or the claim asks.
    pub beats: bool,
    /// Tells the holder's [`Ear`] when somebody begins to wait; otherwise a process that has waiters of its own gives
    /// the key back after every few of them, to be fair to others that it cannot know of.
    pub tells_waiters: bool,
    /// Does claims of several keys.
    pub several: bool,
    /// Does [`Backend::latch`].
    pub latches: bool,
    /// Gives fencing tokens.
    pub fencing: bool,
    /// A fencing token is at least the store's time in microseconds when it was made. Then a holder may number the
    /// turns of its own process, by no more than the microseconds that have passed.
    pub fence_is_time: bool,
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
            beats: false,
            tells_waiters: false,
            several: false,
            latches: false,
            fencing: false,
            fence_is_time: false,
            notifies: false,
            marks_sent: false,
            placement: Placement::Remote,
            min_ttl: Duration::from_millis(10),
            max_ttl: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// Who listens to what a store tells by itself. Called from the store's own tasks: must not block.
pub trait Ear: Send + Sync + fmt::Debug {
    /// The waiting claim of `owner` was granted by its place; `waiters` more wait behind it.
    fn granted(&self, owner: Owner, waiters: usize);
    /// Somebody began to wait for `key`, which this process holds.
    fn contended(&self, key: &str);
    /// The latch `key` is open.
    fn opened(&self, key: &str);
    /// A connection was made anew: what was told meanwhile is lost, so everybody who waits asks.
    fn reconnected(&self);
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
    /// - Takes no place in the queue, and with [`Queue::Fifo`] overtakes nobody who has one.
    /// - A claim of several keys gets all of them or none.
    /// - A key that is in use in a mode with nothing in common (exclusive or shared beside permits, permits of another
    ///   number) is [`InvalidRequest`](crate::LockErrorKind::InvalidRequest), and the text names both.
    /// - An error that says nothing about whether the claim was granted is temporary; the caller treats it as maybe.
    /// - [`Grant::sent`] is read before the winning request is sent.
    ///
    /// # Errors
    /// The store cannot be reached, refuses, or cannot do the mode.
    fn try_acquire(&self, claim: &Claim) -> impl Future<Output = Result<Attempt>> + Send;

    /// As [`try_acquire`](Self::try_acquire), where it does not matter who holds: the [`Held`] may be empty. What a
    /// request tries first; the cheapest way that the store has.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    fn grab(&self, claim: &Claim) -> impl Future<Output = Result<Attempt>> + Send {
        self.try_acquire(claim)
    }

    /// As [`try_acquire`](Self::try_acquire), and takes a place in the queue where the key is held.
    ///
    /// # Behavior
    /// - A *held* answer has a [place](Held::place), but for: a barging claim while a holder of the same manager has
    ///   the key ([`Held::own`]: their turns are made in the process), a queue of `room` or more, and, where the store
    ///   cannot, a claim of several keys.
    /// - Asked again, keeps the place. Where places live on beats, an owner is enqueued once, and asked after by
    ///   [`beat`](Self::beat).
    /// - The oldest claim that can be served beside the holders is served first; a waiting exclusive claim goes before
    ///   later shared ones.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire); after an error that says nothing, the claim may have a place.
    fn enqueue(&self, claim: &Claim, _room: Option<usize>) -> impl Future<Output = Result<Attempt>> + Send {
        self.try_acquire(claim)
    }

    /// Keeps the place of a claim that waits, and serves it where it is its turn.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire). `Unsupported` without [`Capability::beats`].
    fn beat(&self, claim: &Claim) -> impl Future<Output = Result<Beat>> + Send {
        let detail = "places in this store's queue need no sign of life";
        let error = LockError::new(LockErrorKind::Unsupported, detail).with_key(&claim.key);
        std::future::ready(Err(error))
    }

    /// Renews a batch; the answers are in its order, one each.
    ///
    /// # Behavior
    /// - Extends only a grant of the same owner, never shortens it, never makes one.
    /// - A claim of several keys is renewed when all its keys are.
    /// - A part of the batch that fails is [`Renewal::Unknown`] for that part alone.
    fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> impl Future<Output = Vec<Renewal>> + Send + 'a;

    /// Gives the claim back: frees the grant, or leaves the queue.
    ///
    /// With `keep_for` the key stays taken for that long and nobody renews it (a job that ends early must not run
    /// again on the next machine).
    ///
    /// # Behavior
    /// - Touches only what this owner has; idempotent.
    /// - The next in the queue is served at once, and told.
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
    /// - Asked again for the same owner and [turn](Claim::turn), the same one; a later turn gets a larger one, and one
    ///   larger than [`Claim::own_fence`].
    /// - For a claim of several keys, one number that is larger than the last of each.
    ///
    /// # Errors
    /// [`Lost`](crate::LockErrorKind::Lost) when the grant is not ours; else as [`try_acquire`](Self::try_acquire).
    fn fence(&self, claim: &Claim) -> impl Future<Output = Result<FencingToken>> + Send;

    /// Turns the exclusive grant of `claim` into a shared one of the same owner, with a lease of its ttl, and serves
    /// those who can share it. From then on the claim is [`Mode::Shared`]; asked again with that mode, it answers the
    /// same.
    fn downgrade(&self, claim: &Claim) -> impl Future<Output = Renewal> + Send {
        let detail = "this store has no shared locks";
        let error = LockError::new(LockErrorKind::Unsupported, detail).with_key(&claim.key);
        std::future::ready(Renewal::Unknown(error))
    }

    /// One step of a count-down latch.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire); `Unsupported` without [`Capability::latches`].
    fn latch(&self, key: &Key, _step: &LatchStep) -> impl Future<Output = Result<LatchState>> + Send {
        let detail = "this store has no count-down latches";
        std::future::ready(Err(LockError::new(LockErrorKind::Unsupported, detail).with_key(key)))
    }

    /// Tells `ear` from now on what concerns the owners of `process` (see [`Owner::process`]). Hints, which may come
    /// early, twice or never.
    fn listen(&self, _process: u128, _ear: Weak<dyn Ear>) {}

    /// Completes when another try for the claim makes sense; a hint, which may come early, late or never.
    fn changed(&self, _claim: &Claim) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Gives up connections and tasks. Claims that are held are not touched.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}
