//! The ways in which a store serves waiting claims.

use std::time::Duration;

#[cfg(doc)]
use super::{Ask, Backend, Listener, Queue};

/// The waiter lease of most stores of this crate: see [`Waiting::Watch`].
pub const WAITER_LEASE: Duration = Duration::from_secs(2);

/// The way in which a waiting claim learns that the key may be free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// The claim sends another request at the intervals of its strategy. There is no order: a new claim may overtake a
    /// waiting claim. The store does not support [`Queue::Fifo`].
    Poll,
    /// The claim sends another request when [`Backend::changed`] completes. The store serves the claims that
    /// [`Ask::Enqueue`] has queued in order of arrival. A queue entry lives while `changed` or a request of the claim
    /// is awaited. With [`LeaseScope::Session`](super::LeaseScope::Session), the entry lives as long as the session.
    Watch {
        /// The longest time for which the store keeps the queue entry of a dead waiter. A dead waiter delays later
        /// claims for that time. Most stores use [`WAITER_LEASE`]. If the ttl of the claim is shorter, the ttl is the
        /// limit.
        waiter_lease: Duration,
        /// Whether the store [reports](Listener::contended) to a holder that a claim began to wait. Without these
        /// reports, a process with several local waiters checks from time to time whether [others
        /// wait](Backend::others_wait), to be fair to other processes. Without them, no grant may
        /// [linger](crate::LockRequest::linger) either.
        tells_holder: bool,
    },
    /// The store queues the claim in order of arrival, even with [`Queue::Barging`]. The store grants the key to the
    /// next claim in the queue, and [reports](Listener::granted) the grant. [`Backend::heartbeat`] keeps an entry in
    /// the queue.
    Queue {
        /// The longest time for which the store keeps the entry of a waiter that sends no heartbeat. A grant from the
        /// queue also ends after this time if its owner has not confirmed it by a heartbeat or a renewal. Most stores
        /// use [`WAITER_LEASE`].
        waiter_lease: Duration,
        /// Whether the store reports new waiters to a holder; see [`Watch`](Self::Watch).
        tells_holder: bool,
        /// Whether a reported grant counts only after a [`Backend::heartbeat`] has confirmed it, because the grant must
        /// reach replicas first. If `false`, the report is enough.
        confirms: bool,
    },
}

impl Waiting {
    /// Returns whether waiting claims are served in order of arrival.
    #[must_use]
    pub const fn in_order(self) -> bool {
        self.waiter_lease().is_some()
    }

    /// Returns whether waiting claims must send heartbeats, as with [`Queue`](Self::Queue).
    #[must_use]
    pub const fn by_heartbeats(self) -> bool {
        matches!(self, Self::Queue { .. })
    }

    /// Returns whether [`Backend::changed`] can complete, as with [`Watch`](Self::Watch).
    #[must_use]
    pub const fn watches(self) -> bool {
        matches!(self, Self::Watch { .. })
    }

    /// Returns whether the store reports to a holder that a claim began to wait.
    #[must_use]
    pub const fn tells_holder(self) -> bool {
        matches!(self, Self::Watch { tells_holder: true, .. } | Self::Queue { tells_holder: true, .. })
    }

    /// Returns whether a reported grant counts only after a heartbeat has confirmed it.
    #[must_use]
    pub const fn confirms(self) -> bool {
        matches!(self, Self::Queue { confirms: true, .. })
    }

    /// Returns the longest time for which the store keeps the entry of a dead waiter. Returns `None` if the store has
    /// no queue.
    #[must_use]
    pub const fn waiter_lease(self) -> Option<Duration> {
        match self {
            Self::Watch { waiter_lease, .. } | Self::Queue { waiter_lease, .. } => Some(waiter_lease),
            Self::Poll => None,
        }
    }
}
