//! The request of an owner for keys.

mod marks;

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::marks::Marks;
#[cfg(doc)]
use super::{Backend, Capability, Fencing, Held};
use super::{FencingToken, MoreKeys};
use crate::key::Key;
use crate::owner::{Owner, OwnerRecord};

/// The way in which a claim excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Mode {
    /// Only one owner at a time.
    Exclusive,
    /// Any number of owners at the same time, but no [`Mode::Exclusive`] owner among them.
    Shared,
    /// At most `of` permits at the same time.
    Permit {
        /// The total number of permits. Every claim of a key must name the same number.
        of: u32,
    },
}

impl Mode {
    /// Returns the name of a lock of this mode for a message, such as `an exclusive lock`.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Exclusive => "an exclusive lock".into(),
            Self::Shared => "a shared lock".into(),
            Self::Permit { of } => format!("a semaphore of {of} permits").into(),
        }
    }

    /// Returns the mode in the notation of the stores.
    #[cfg(any(feature = "etcd", feature = "postgres", feature = "redis"))]
    pub(crate) fn code(self) -> Cow<'static, str> {
        match self {
            Self::Exclusive => "x".into(),
            Self::Shared => "s".into(),
            Self::Permit { of } => format!("p{of}").into(),
        }
    }

    /// Reads the [code](Self::code) of a mode.
    #[cfg(any(feature = "etcd", feature = "postgres", feature = "redis"))]
    pub(crate) fn from_code(code: &str) -> Option<Self> {
        match code {
            "x" => Some(Self::Exclusive),
            "s" => Some(Self::Shared),
            _ => code.strip_prefix('p')?.parse().ok().map(|of| Self::Permit { of }),
        }
    }
}

/// The order in which waiting claims are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Queue {
    /// No order: a new claim may be served before a waiting one.
    Barging,
    /// Strict order of arrival: the claim is served after every claim that is already queued.
    Fifo,
}

/// The way in which a claim is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Acquires the key if it is free, in the cheapest way that the store has. If the key is held, the [`Held`] may be
    /// empty.
    Probe,
    /// Acquires the key if it is free; otherwise returns the holder.
    Try,
    /// Acquires the key if it is free; otherwise queues the claim and returns the holder.
    Enqueue {
        /// The claim is not queued if this number of claims or more wait. `None` allows any number.
        room: Option<usize>,
    },
}

impl Ask {
    /// Returns the same request without queueing, for a claim that the store cannot queue.
    #[must_use]
    pub const fn without_queue(self) -> Self {
        match self {
            Self::Probe => Self::Probe,
            Self::Try | Self::Enqueue { .. } => Self::Try,
        }
    }

    /// Returns whether the claim should be queued.
    #[must_use]
    pub const fn enqueues(self) -> bool {
        matches!(self, Self::Enqueue { .. })
    }
}

/// A request of one owner for one key, or for several at once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The key, with the namespace.
    pub key: Key,
    /// The further keys, sorted and without duplicates. All of them sort after `key`. The claim gets all its keys or
    /// none. Most claims have no further keys. A claim of several keys is exclusive.
    pub more: MoreKeys,
    /// The way in which the claim excludes others.
    pub mode: Mode,
    /// The number of permits that the claim acquires, all at once or none. The number is larger than 1 only if the
    /// store has [`Capability::several_permits`] and the mode is [`Mode::Permit`].
    pub permits: u32,
    /// The order in which the claim waits.
    pub queue: Queue,
    /// The owner, which is created before the first attempt and never used for another grant.
    pub owner: Owner,
    /// The length of the lease, until a renewal extends it.
    pub ttl: Duration,
    /// Whether the grant should include the fencing token. If not, [`Backend::fence`] makes the token on demand.
    pub fencing: bool,
    /// Describes the owner for people.
    pub record: OwnerRecord,
    /// The number of hand-offs of the grant inside the process. The number is 0 for the holder to which the store
    /// granted the key. Each holder has its own fencing token, so [`Backend::fence`] and [`Backend::downgrade`] receive
    /// the number of the calling holder. Other calls may receive the number of an earlier holder of the same claim.
    pub handoffs: u64,
    /// Whether the holder must be [notified](crate::backend::Listener::contended) of the first waiter, whenever it
    /// arrives after the grant. The holder's process may keep the grant for a moment after the release, and needs the
    /// notification so that it does not delay a waiter.
    pub notify_holder: bool,
    /// Whether the grant is renewed until its release. The first lease of such a grant may be shorter than the ttl.
    /// `false` by default.
    pub renews: bool,
    pub(crate) marks: Marks,
}

impl Claim {
    /// Makes a claim of `owner` on `key`: exclusive, barging, without a fencing token.
    #[must_use]
    pub fn new(key: Key, owner: Owner, ttl: Duration, record: OwnerRecord) -> Self {
        Self {
            key,
            more: MoreKeys::default(),
            mode: Mode::Exclusive,
            permits: 1,
            queue: Queue::Barging,
            owner,
            ttl,
            fencing: false,
            record,
            handoffs: 0,
            notify_holder: false,
            renews: false,
            marks: Marks::default(),
        }
    }

    /// Returns every key of the claim, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> + Clone {
        std::iter::once(&self.key).chain(self.more.iter())
    }

    /// Records that a request for this claim is about to leave the process. A backend with [`Capability::marks_sent`]
    /// calls this before it sends the first byte. If an acquire is dropped without this mark, the store needs no
    /// clean-up.
    pub fn mark_sent(&self) {
        self.marks.sent.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`mark_sent`](Self::mark_sent) was called in this attempt.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.marks.sent.load(Ordering::Relaxed)
    }

    /// Removes the [sent](Self::mark_sent) mark before another attempt.
    pub(crate) fn not_sent(&mut self) {
        *self.marks.sent.get_mut() = false;
    }

    /// Records that a request whose answer was lost is about to be sent again with the same owner. After that, an
    /// answered release does not prove that no request is in flight. The release may have freed the grant of one
    /// request, and the other request may arrive later. So the library repeats such a release, and continues with
    /// another owner. A backend may also call this if it can no longer use the owner.
    pub fn mark_resent(&self) {
        self.marks.resent.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`mark_resent`](Self::mark_resent) was called for this owner.
    #[must_use]
    pub fn is_resent(&self) -> bool {
        self.marks.resent.load(Ordering::Relaxed)
    }

    /// Replaces the owner of the claim with a new owner, which the store has not seen.
    pub(crate) fn set_owner(&mut self, owner: Owner) {
        self.owner = owner;
        *self.marks.resent.get_mut() = false;
    }

    /// Records that the last fencing token from the store is ahead of the store's clock, because the clock was set
    /// back. The process must then not number its hand-offs from this token.
    pub fn mark_fence_ahead(&self) {
        self.marks.fence_ahead.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`mark_fence_ahead`](Self::mark_fence_ahead) was called.
    #[must_use]
    pub fn is_fence_ahead(&self) -> bool {
        self.marks.fence_ahead.load(Ordering::Relaxed)
    }

    /// Copies the marks that a [request for a fencing token](Backend::fence) has set on a copy of this claim.
    pub(crate) fn note_fence_of(&self, copy: &Self) {
        if copy.is_fence_ahead() {
            self.mark_fence_ahead();
        }
        if copy.marks.fenced.load(Ordering::Relaxed) {
            self.mark_fenced();
        }
        if copy.is_resent() {
            self.mark_resent();
        }
        if let Some(token) = copy.own_fence() {
            self.number_fence(token);
        }
    }

    /// Records that a [downgrade](Backend::downgrade) of this claim is about to be requested. Until the request is
    /// answered, the grant may be exclusive or shared. A backend that stores exclusive and shared grants in different
    /// ways must check for both.
    pub fn mark_shared(&self) {
        self.marks.shared.store(true, Ordering::Relaxed);
    }

    /// Returns whether the claim is shared, or [`mark_shared`](Self::mark_shared) was called.
    #[must_use]
    pub fn may_be_shared(&self) -> bool {
        self.mode == Mode::Shared || self.marks.shared.load(Ordering::Relaxed)
    }

    /// Records that a transaction of the application is about to [verify](Backend::lease_check) the lease.
    pub(crate) fn mark_verified(&self) {
        self.marks.verified.store(true, Ordering::Relaxed);
    }

    /// Returns whether a transaction of the application may have verified the lease.
    pub(crate) fn is_verified(&self) -> bool {
        self.marks.verified.load(Ordering::Relaxed)
    }

    /// Returns the last fencing token of this grant that this process numbered itself. Release, renewal and
    /// [`fence`](Backend::fence) raise the store's last token to at least this number.
    #[must_use]
    pub fn own_fence(&self) -> Option<FencingToken> {
        Some(self.marks.own_fence.load(Ordering::Relaxed)).filter(|number| *number > 0).map(FencingToken::new)
    }

    /// Records a token that this process numbered; see [`Fencing::StoreTime`].
    pub fn number_fence(&self, token: FencingToken) {
        self.marks.own_fence.fetch_max(token.get(), Ordering::Relaxed);
    }

    /// Records that the store has made a fencing token for this claim. The store must remember this token as long as
    /// the grant lives.
    pub fn mark_fenced(&self) {
        self.marks.fenced.store(true, Ordering::Relaxed);
    }

    /// Returns whether the store must remember a fencing token of this claim. This is so after
    /// [`mark_fenced`](Self::mark_fenced), and if this process numbered a token.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.marks.fenced.load(Ordering::Relaxed) || self.own_fence().is_some()
    }
}

#[cfg(all(test, any(feature = "etcd", feature = "postgres", feature = "redis")))]
mod tests {
    use super::*;

    #[test]
    fn modes_are_written_and_read() {
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 1 }, Mode::Permit { of: 4_000_000 }] {
            assert_eq!(Mode::from_code(&mode.code()), Some(mode));
        }
        for text in ["", "p", "px", "p5x2", "latch", "xx"] {
            assert_eq!(Mode::from_code(text), None, "{text}");
        }
    }
}
