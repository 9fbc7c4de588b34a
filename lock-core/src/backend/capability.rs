//! What a backend can do.

use std::time::Duration;

#[cfg(doc)]
use super::{Backend, Listener};
use super::{Claim, Mode, Queue};
use crate::clock::Clock;
use crate::error::{LockError, LockErrorKind, Result};

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
            #[cfg(test)]
            Self::Remote => crate::clock::of_remote(),
            #[cfg(not(test))]
            Self::Remote => Clock::Suspend,
        }
    }
}

/// What the lifetime of a grant is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseScope {
    /// Each grant has a lease of its own: unless it is renewed, the store drops it when its ttl is over.
    Grant,
    /// All grants of this process live in one session with the store: none ends while the session lives, and when it
    /// ends, all of them do. A grant that is not released stays for as long as the process is connected.
    Session,
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
    /// Does [`Queue::Fifo`]: [`Ask::Enqueue`](super::Ask::Enqueue) queues the claim.
    pub fifo: bool,
    /// A place lives on [`Backend::heartbeat`] and is served through [`Listener::granted`], for barging claims too. Otherwise a
    /// place lives while [`Backend::changed`] is awaited or the claim asks.
    pub beats: bool,
    /// What [`Listener::granted`] tells is asked after by [`Backend::heartbeat`] before it counts, because a grant needs more than to be
    /// made. Otherwise the word is enough.
    pub confirms: bool,
    /// Tells the holder's [`Listener`] when somebody begins to wait; otherwise a process that has waiters of its own gives
    /// the key back after every few of them, to be fair to others that it cannot know of.
    pub tells_waiters: bool,
    /// Does claims of several keys.
    pub several: bool,
    /// Does [`Backend::latch`].
    pub latches: bool,
    /// Does [`Backend::list`], [`Backend::inspect`] and [`Backend::force_release`].
    pub lists: bool,
    /// Gives fencing tokens.
    pub fencing: bool,
    /// A fencing token is at least the store's time in microseconds when it was made. Then a holder numbers the turns of
    /// its own process, below the time up to which the store has confirmed the grant.
    pub fence_is_time: bool,
    /// [`Backend::changed`] tells when a key may be free; otherwise a waiter tries again by backoff.
    pub notifies: bool,
    /// Calls [`Claim::mark_sent`] before it sends anything; otherwise every dropped attempt counts as sent.
    pub marks_sent: bool,
    /// What the lifetime of a grant is bound to.
    pub lease: LeaseScope,
    /// Where the store lives.
    pub placement: Placement,
    /// The shortest lease that it can hold.
    pub min_ttl: Duration,
    /// The longest lease that it can hold.
    pub max_ttl: Duration,
    /// For how long at most it keeps a key after its release: see [`Backend::release`].
    pub max_keep: Duration,
}

impl Capability {
    /// A remote store that does [`Mode::Exclusive`] and nothing else, with leases of 10 ms to 24 h, that keeps a key for
    /// 366 days.
    #[must_use]
    pub const fn exclusive(store: &'static str) -> Self {
        Self {
            store,
            shared: false,
            permits: false,
            fifo: false,
            beats: false,
            confirms: false,
            tells_waiters: false,
            several: false,
            latches: false,
            lists: false,
            fencing: false,
            fence_is_time: false,
            notifies: false,
            marks_sent: false,
            lease: LeaseScope::Grant,
            placement: Placement::Remote,
            min_ttl: Duration::from_millis(10),
            max_ttl: Duration::from_secs(24 * 60 * 60),
            max_keep: Duration::from_secs(366 * 24 * 60 * 60),
        }
    }

    /// Refuses a claim that the store cannot do: its mode, its queue, or several keys. What a backend that does not do all
    /// of them begins with.
    ///
    /// # Errors
    /// [`Unsupported`](LockErrorKind::Unsupported), and the text names what is missing.
    pub fn check(&self, claim: &Claim) -> Result<()> {
        let missing = match claim.mode {
            Mode::Shared if !self.shared => "shared locks",
            Mode::Permit { .. } if !self.permits => "semaphores",
            _ if claim.queue == Queue::Fifo && !self.fifo => "order of arrival",
            _ if !claim.more.is_empty() && !self.several => "locks of several keys",
            _ => return Ok(()),
        };
        let detail = format!("the {} store has no {missing}", self.store);
        Err(LockError::new(LockErrorKind::Unsupported, detail).with_key(&claim.key))
    }
}
