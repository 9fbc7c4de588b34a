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
    /// One owner and no other.
    Exclusive,
    /// Any number of owners, but no [`Mode::Exclusive`] beside them.
    Shared,
    /// At most `of` owners.
    Permit {
        /// The number of owners in all; every claim of a key must name the same number.
        of: u32,
    },
}

impl Mode {
    /// Returns the name of such a lock for a text: `an exclusive lock`.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Exclusive => "an exclusive lock".into(),
            Self::Shared => "a shared lock".into(),
            Self::Permit { of } => format!("a semaphore of {of} permits").into(),
        }
    }
}

/// The order in which waiting claims are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Queue {
    /// No order: a newcomer may be served before a claim that waits.
    Barging,
    /// Strict order of arrival: after every claim that is queued.
    Fifo,
}

/// The way in which a claim is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Acquires the key if it is free, in the cheapest way that the store has. If it is held, the [`Held`] may be
    /// empty.
    Probe,
    /// Acquires the key if it is free; otherwise returns the holder.
    Try,
    /// As [`Try`](Self::Try), and queues the claim if it is not free.
    Enqueue {
        /// The claim is not queued if this many others or more wait; `None` for any number.
        room: Option<usize>,
    },
}

impl Ask {
    /// Returns the same request for a claim that the store cannot queue.
    #[must_use]
    pub const fn without_queue(self) -> Self {
        match self {
            Self::Probe => Self::Probe,
            Self::Try | Self::Enqueue { .. } => Self::Try,
        }
    }

    /// Whether the claim should be queued.
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
    /// Further keys: the claim gets all of them or none. Sorted, without duplicates, and all after `key`. Empty for
    /// most claims; a claim of several keys is exclusive.
    pub more: MoreKeys,
    /// How the claim excludes others.
    pub mode: Mode,
    /// How many permits the claim takes, all at once or none: 1, unless the store has
    /// [`Capability::several_permits`] and the mode is [`Mode::Permit`].
    pub permits: u32,
    /// How the claim waits.
    pub queue: Queue,
    /// The owner; made before the first attempt and never used for another grant.
    pub owner: Owner,
    /// The length of the lease, unless it is renewed.
    pub ttl: Duration,
    /// Whether the fencing token should come with the grant; otherwise [`Backend::fence`] makes it on demand.
    pub fencing: bool,
    /// Describes the owner for people.
    pub record: OwnerRecord,
    /// The number of hand-offs of the grant inside the process: 0 for the holder that the store granted it to. Each
    /// holder has its own fencing token, so [`Backend::fence`] and [`Backend::downgrade`] get the number of the calling
    /// holder. Other calls may get that of an earlier holder, which has the same claim.
    pub handoffs: u64,
    /// Whether the holder must be [notified](crate::backend::Listener::contended) of the first waiter, from the grant
    /// on: its grant may stay with its process for a moment after the release, and must not keep a waiter waiting.
    pub notify_holder: bool,
    /// Whether the grant is renewed until it is released, so that it may begin with less than the ttl; `false` by
    /// default.
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
    /// calls it before it sends the first byte. An acquire that is dropped without the mark needs no clean-up in the
    /// store.
    pub fn mark_sent(&self) {
        self.marks.sent.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`mark_sent`](Self::mark_sent) was called in this attempt.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.marks.sent.load(Ordering::Relaxed)
    }

    /// Removes the mark for another attempt.
    pub(crate) fn not_sent(&mut self) {
        *self.marks.sent.get_mut() = false;
    }

    /// Records that a request whose answer was lost is about to be sent again with the same owner. From then on an
    /// answered release does not prove that no request is in flight: the release may have freed the grant of one
    /// request, and the other may arrive after it. So the library repeats such a release, and goes on with another
    /// owner. A backend may also call this if it cannot use the owner any more.
    pub fn mark_resent(&self) {
        self.marks.resent.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`mark_resent`](Self::mark_resent) was called for this owner.
    #[must_use]
    pub fn is_resent(&self) -> bool {
        self.marks.resent.load(Ordering::Relaxed)
    }

    /// Gives the claim another owner, which is unknown to the store.
    pub(crate) fn set_owner(&mut self, owner: Owner) {
        self.owner = owner;
        *self.marks.resent.get_mut() = false;
        *self.marks.contended.get_mut() = false;
    }

    /// Records that the fencing token which the store just gave is ahead of the store's clock, because the clock was
    /// set back. Then no hand-off in this process may continue from the token.
    pub fn mark_fence_ahead(&self) {
        self.marks.fence_ahead.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`mark_fence_ahead`](Self::mark_fence_ahead) was called.
    #[must_use]
    pub fn is_fence_ahead(&self) -> bool {
        self.marks.fence_ahead.load(Ordering::Relaxed)
    }

    /// Takes over the marks that a [request for a fencing token](Backend::fence) has set on a copy of this claim.
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

    /// Records that a [downgrade](Backend::downgrade) of this claim is about to be requested. Until it is answered, the
    /// grant may be exclusive or shared. A backend that stores the two in different ways must look for both.
    pub fn mark_shared(&self) {
        self.marks.shared.store(true, Ordering::Relaxed);
    }

    /// Returns whether the claim is shared, or [`mark_shared`](Self::mark_shared) was called.
    #[must_use]
    pub fn may_be_shared(&self) -> bool {
        self.mode == Mode::Shared || self.marks.shared.load(Ordering::Relaxed)
    }

    /// Records that others waited in the store's queue when the claim was granted.
    pub(crate) fn mark_contended(&self) {
        self.marks.contended.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`mark_contended`](Self::mark_contended) was called: the release is likely to grant the key to
    /// another process.
    #[cfg(feature = "redis")]
    pub(crate) fn is_contended(&self) -> bool {
        self.marks.contended.load(Ordering::Relaxed)
    }

    /// Records that a transaction of the application is about to [verify](Backend::lease_check) the lease.
    pub(crate) fn mark_verified(&self) {
        self.marks.verified.store(true, Ordering::Relaxed);
    }

    /// Returns whether a transaction of the application may have verified the lease.
    pub(crate) fn is_verified(&self) -> bool {
        self.marks.verified.load(Ordering::Relaxed)
    }

    /// Returns the last fencing token of this grant that was numbered in this process, without the store. Release,
    /// renewal and [`fence`](Backend::fence) raise the store's last token to at least this.
    #[must_use]
    pub fn own_fence(&self) -> Option<FencingToken> {
        Some(self.marks.own_fence.load(Ordering::Relaxed)).filter(|number| *number > 0).map(FencingToken::new)
    }

    /// Records a token that was numbered in this process; see [`Fencing::StoreTime`].
    pub fn number_fence(&self, token: FencingToken) {
        self.marks.own_fence.fetch_max(token.get(), Ordering::Relaxed);
    }

    /// Records that the store has made a fencing token for this claim, which it must remember as long as the grant
    /// lives.
    pub fn mark_fenced(&self) {
        self.marks.fenced.store(true, Ordering::Relaxed);
    }

    /// Returns whether the store must remember a fencing token of this claim: [`mark_fenced`](Self::mark_fenced) was
    /// called, or this process numbered a token.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.marks.fenced.load(Ordering::Relaxed) || self.own_fence().is_some()
    }
}
