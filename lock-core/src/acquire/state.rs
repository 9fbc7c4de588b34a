//! Defines the state of an acquisition, except its claim and its place.

use std::sync::OnceLock;
use std::time::Duration;

use super::watch::Watch;
use crate::backend::Held;
use crate::clock::Moment;
use crate::local_queue::LastAnswer;

/// The requests sent so far.
#[derive(Debug)]
pub(super) struct Tries {
    pub(super) started: Moment,
    /// The number of requests and pauses.
    pub(super) count: u32,
    /// The number of requests per second that find the key held. `refusal.rs` computes it once.
    pub(super) rate: OnceLock<f64>,
    /// Whether the claim was in the local queue before. If it joins again, `max_waiters` does not refuse it.
    pub(super) has_queued: bool,
}

impl Tries {
    pub(super) fn new(started: Moment) -> Self {
        Self { started, count: 0, rate: OnceLock::new(), has_queued: false }
    }

    pub(super) fn count_one(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    pub(super) fn waited(&self, now: Moment) -> Duration {
        now.since(self.started)
    }
}

/// The failures of the store.
#[derive(Debug, Default)]
pub(super) struct StoreHealth {
    /// After a failure, the time of the next request.
    pub(super) ask_again: Option<Moment>,
    /// When the log last reported that the store fails.
    pub(super) warned: Option<Moment>,
    /// The store's last answer to this request.
    pub(super) last_answer: Option<LastAnswer>,
}

/// The notifications that the waiter relies on.
pub(super) struct Notices {
    /// The time since which the waiter relies on notifications. This time starts with the first pause after the last
    /// request, or after the waiter became the head of the local queue.
    pub(super) relies_since: Option<Moment>,
    /// The value of [`Engine::reconnects`](crate::engine::Engine::reconnects) before the last request.
    pub(super) asked_in: u64,
    /// The pending notification, if the waiter watches the store.
    pub(super) watch: Option<Watch>,
}

/// The last answer of the store about a held key. The default is that nothing is known of the holder.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// If `held.own` is set, this process holds the key. When it releases the key, it hands the grant off or notifies
    /// the waiters.
    pub(super) held: Held,
    /// When the holder's lease ends, if the store reports it.
    pub(super) free_at: Option<Moment>,
}

impl Found {
    /// Makes this value from the answer `held`, which arrived at `now`.
    pub(super) fn new(held: Held, now: Moment) -> Self {
        Self { free_at: held.remaining.map(|left| now.plus(left)), held }
    }
}
