//! The claim that a backend is asked for.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

#[cfg(doc)]
use super::{Backend, Capability, Fencing, Held};
use super::{FencingToken, MoreKeys};
use crate::key::Key;
use crate::owner::{Owner, OwnerRecord};

/// The way in which a claim excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Strict order of arrival: behind every claim that is queued.
    Fifo,
}

/// The way in which a backend is asked for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Acquires the key if it is free, in the cheapest way that the store has. If it is held, the [`Held`] may be
    /// empty.
    Probe,
    /// Acquires the key if it is free; otherwise says who holds it.
    Try,
    /// As [`Try`](Self::Try), and queues the claim if it is not free.
    Enqueue {
        /// The claim is not queued behind this many others or more; `None` for any number.
        room: Option<usize>,
    },
}

impl Ask {
    /// Returns the same question for a claim that the store cannot queue.
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
    /// How the claim waits.
    pub queue: Queue,
    /// The owner; made before the first attempt and never used for another grant.
    pub owner: Owner,
    /// The lease, unless it is renewed.
    pub ttl: Duration,
    /// Whether the fencing token should come with the grant; otherwise [`Backend::fence`] makes it on demand.
    pub fencing: bool,
    /// Describes the owner for people.
    pub record: OwnerRecord,
    /// The number of hand-offs of the grant inside the process: 0 for the holder that the store granted it to. Each
    /// holder has a fencing token of its own.
    pub handoffs: u64,
    /// Whether the holder must be [notified](crate::backend::Listener::contended) of the first waiter, from the grant
    /// on: its grant may stay with its process for a moment after the release, and must not keep a waiter waiting.
    pub notify_holder: bool,
    pub(crate) marks: Marks,
}

/// What happened to a claim, recorded by code that has only a reference to it.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Whether a request for the claim left the process.
    sent: AtomicBool,
    /// Whether a request for the claim was sent again with the same owner.
    resent: AtomicBool,
    /// Whether the fencing token of the claim is ahead of the store's clock.
    fence_ahead: AtomicBool,
    /// Whether the store may have made the grant a shared one.
    shared: AtomicBool,
    /// The last fencing token that was numbered in this process; 0 for none.
    own_fence: AtomicU64,
    /// Whether the store has made a fencing token for the claim.
    fenced: AtomicBool,
    /// How often a release was handed to a connection: [`ONCE`](Self::ONCE), or more often.
    releases: AtomicU8,
}

impl Marks {
    const ONCE: u8 = 1;
    const MORE: u8 = 2;
}

impl Clone for Marks {
    fn clone(&self) -> Self {
        Self {
            sent: AtomicBool::new(self.sent.load(Ordering::Relaxed)),
            resent: AtomicBool::new(self.resent.load(Ordering::Relaxed)),
            fence_ahead: AtomicBool::new(self.fence_ahead.load(Ordering::Relaxed)),
            shared: AtomicBool::new(self.shared.load(Ordering::Relaxed)),
            own_fence: AtomicU64::new(self.own_fence.load(Ordering::Relaxed)),
            fenced: AtomicBool::new(self.fenced.load(Ordering::Relaxed)),
            releases: AtomicU8::new(self.releases.load(Ordering::Relaxed)),
        }
    }
}

impl Claim {
    /// Makes a claim of `owner` on `key`: exclusive, barging, without a fencing token.
    #[must_use]
    pub fn new(key: Key, owner: Owner, ttl: Duration, record: OwnerRecord) -> Self {
        Self {
            key,
            more: MoreKeys::default(),
            mode: Mode::Exclusive,
            queue: Queue::Barging,
            owner,
            ttl,
            fencing: false,
            record,
            handoffs: 0,
            notify_holder: false,
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
    /// request, and the other may arrive after it. So the library repeats such a release.
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
        *self.marks.releases.get_mut() = 0;
    }

    /// Records that a [release](Backend::release) of this claim was handed to a connection, so that every request for
    /// its keys that the same runtime makes from now on arrives behind it. Call it each time that the release is sent:
    /// after the second time, the release is known to be ahead of nothing.
    ///
    /// A caller that does not wait for the answer relies on it: the next acquisition of the keys on this runtime is sent
    /// at once. Without the mark, it waits for the answer to the release.
    pub fn mark_release_ahead(&self) {
        let more = |times: u8| Some(if times == 0 { Marks::ONCE } else { Marks::MORE });
        let _ = self.marks.releases.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
    }

    /// Returns whether [`mark_release_ahead`](Self::mark_release_ahead) was called exactly once.
    #[must_use]
    pub fn is_release_ahead(&self) -> bool {
        self.marks.releases.load(Ordering::Acquire) == Marks::ONCE
    }

    /// Records that the fencing token which the store just gave is ahead of the store's clock, because the clock was
    /// set back. Then no hand-off in this process may count on from the token.
    pub fn mark_fence_ahead(&self) {
        self.marks.fence_ahead.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`mark_fence_ahead`](Self::mark_fence_ahead) was called.
    #[must_use]
    pub fn is_fence_ahead(&self) -> bool {
        self.marks.fence_ahead.load(Ordering::Relaxed)
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

    /// Returns the last fencing token of this grant that was numbered in this process, without the store. Release,
    /// renewal and [`fence`](Backend::fence) raise the last token that the store knows to it.
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
