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
    /// The claim asks again, at the intervals of its strategy. There is no order: a newcomer may be faster than a waiting
    /// claim, and the store does not support [`Queue::Fifo`].
    Poll,
    /// The claim asks again when [`Backend::changed`] completes. The store serves claims in the order of arrival, once
    /// they are queued by [`Ask::Enqueue`]. An entry in its queue lives while `changed` is awaited, and while the claim
    /// asks; with [`LeaseScope::Session`](super::LeaseScope::Session), as long as the session.
    Watch {
        /// The longest time for which the store keeps the queue entry of a waiter that is gone, and therefore the delay
        /// that a dead waiter causes for later claims. [`WAITER_LEASE`], unless the store needs another time. A shorter
        /// ttl of the claim limits it.
        waiter_lease: Duration,
        /// Whether the store [reports](Listener::contended) to a holder that a claim began to wait. Otherwise a process
        /// with several local waiters asks from time to time whether [others wait](Backend::others_wait), to be fair to
        /// other processes. Without it no grant may [linger](crate::LockRequest::linger).
        tells_holder: bool,
    },
    /// The store queues the claim in order of arrival, for [`Queue::Barging`] too. The store grants the key to the next
    /// claim in the queue, and [reports](Listener::granted) the grant. [`Backend::heartbeat`] keeps an entry in the
    /// queue.
    Queue {
        /// The longest time for which the store keeps the entry of a waiter that sends no heartbeat, and a grant from
        /// the queue that its owner has not confirmed by a heartbeat or a renewal. [`WAITER_LEASE`], unless
        /// the store needs another time.
        waiter_lease: Duration,
        /// Whether the store reports new waiters to a holder; see [`Watch`](Self::Watch).
        tells_holder: bool,
        /// Whether a reported grant counts only after a [`Backend::heartbeat`] has confirmed it, because replicas must
        /// have it first. Otherwise the report is enough.
        confirms: bool,
    },
}

impl Waiting {
    /// Returns whether waiting claims are served in order of arrival.
    #[must_use]
    pub const fn in_order(self) -> bool {
        self.waiter_lease().is_some()
    }

    /// Returns whether waiting claims must send heartbeats: [`Queue`](Self::Queue).
    #[must_use]
    pub const fn by_heartbeats(self) -> bool {
        matches!(self, Self::Queue { .. })
    }

    /// Returns whether [`Backend::changed`] completes: [`Watch`](Self::Watch).
    #[must_use]
    pub const fn watches(self) -> bool {
        matches!(self, Self::Watch { .. })
    }

    /// Returns whether the store reports to a holder that a claim began to wait.
    #[must_use]
    pub const fn tells_holder(self) -> bool {
        matches!(self, Self::Watch { tells_holder: true, .. } | Self::Queue { tells_holder: true, .. })
    }

    /// Returns whether a grant from the queue needs a confirmation.
    #[must_use]
    pub const fn confirms(self) -> bool {
        matches!(self, Self::Queue { confirms: true, .. })
    }

    /// Returns the longest time for which a waiter that is gone is kept; `None` without an order of arrival.
    #[must_use]
    pub const fn waiter_lease(self) -> Option<Duration> {
        match self {
            Self::Watch { waiter_lease, .. } | Self::Queue { waiter_lease, .. } => Some(waiter_lease),
            Self::Poll => None,
        }
    }
}
