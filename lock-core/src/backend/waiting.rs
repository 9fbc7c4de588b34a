//! How the claims that wait at a store are served.

use std::time::Duration;

#[cfg(doc)]
use super::{Ask, Backend, Listener, Queue};

/// The waiter lease of the stores of this crate: see [`Order::Arrival`].
pub const WAITER_LEASE: Duration = Duration::from_secs(2);

/// In which order a store serves the claims that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// In none: a newcomer may be faster than a claim that waits. The store does not do [`Queue::Fifo`].
    Any,
    /// In order of arrival, once they are queued by [`Ask::Enqueue`].
    Arrival {
        /// The longest time for which the store keeps the queue entry of a waiter that gives no sign of life: what a dead
        /// waiter may cost those behind it. [`WAITER_LEASE`] unless the store needs another. Less where the ttl of the
        /// claim is shorter.
        waiter_lease: Duration,
    },
}

/// How a claim that waits learns that it may have the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// It asks again, as often as its strategy says.
    Poll {
        /// In which order the store serves those that ask. An entry in its queue lives while the claim asks.
        order: Order,
    },
    /// [`Backend::changed`] completes when another try makes sense.
    Watch {
        /// In which order the store serves those that try. An entry in its queue lives while `changed` is awaited, and
        /// while the claim asks.
        order: Order,
        /// Whether the store [reports](Listener::contended) to a holder that a claim began to wait. Without that, a
        /// process that has waiters of its own gives the key back after every few of them, to be fair to others that it
        /// cannot know of.
        tells_holder: bool,
    },
    /// The store queues it in order of arrival, for [`Queue::Barging`] too. It grants the key to the next in the queue by
    /// itself, and [reports](Listener::granted) that. An entry in the queue lives on [`Backend::heartbeat`].
    Queue {
        /// The longest time for which the store keeps the entry of a waiter that sends no heartbeat, and a grant from the
        /// queue that its owner has not confirmed by a heartbeat or a renewal. As in [`Order::Arrival`].
        waiter_lease: Duration,
        /// As in [`Watch`](Self::Watch).
        tells_holder: bool,
        /// Whether a reported grant counts only after a [`Backend::heartbeat`] has confirmed it, because the store has
        /// more to do than to make it: copies must have it. Otherwise the report is enough.
        confirms: bool,
    },
}

impl Waiting {
    /// Whether claims that wait are served in order of arrival.
    #[must_use]
    pub const fn in_order(self) -> bool {
        self.waiter_lease().is_some()
    }

    /// Whether claims that wait have to send heartbeats: [`Queue`](Self::Queue).
    #[must_use]
    pub const fn by_heartbeats(self) -> bool {
        matches!(self, Self::Queue { .. })
    }

    /// Whether [`Backend::changed`] completes: [`Watch`](Self::Watch).
    #[must_use]
    pub const fn watches(self) -> bool {
        matches!(self, Self::Watch { .. })
    }

    /// Whether a holder is told that a claim began to wait.
    #[must_use]
    pub const fn tells_holder(self) -> bool {
        matches!(self, Self::Watch { tells_holder: true, .. } | Self::Queue { tells_holder: true, .. })
    }

    /// Whether a grant from the queue needs a confirmation.
    #[must_use]
    pub const fn confirms(self) -> bool {
        matches!(self, Self::Queue { confirms: true, .. })
    }

    /// The longest time for which a waiter without a sign of life is kept, where there is an order of arrival.
    #[must_use]
    pub const fn waiter_lease(self) -> Option<Duration> {
        match self {
            Self::Poll { order: Order::Arrival { waiter_lease } }
            | Self::Watch { order: Order::Arrival { waiter_lease }, .. }
            | Self::Queue { waiter_lease, .. } => Some(waiter_lease),
            Self::Poll { order: Order::Any } | Self::Watch { order: Order::Any, .. } => None,
        }
    }
}
