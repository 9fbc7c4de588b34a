//! What a strategy knows when it decides.

use std::time::Duration;

/// What is known when a try found the key held.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_core::strategy::{Contention, Decision, Strategy, retry};
///
/// let contention = Contention::new().with_attempts(7).with_waited(Duration::from_secs(5));
/// assert_eq!(retry().decide(&contention), Decision::Fail);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Contention {
    /// The number of tries so far, this one included: 1 at the first decision.
    pub attempts: u32,
    /// How long the caller has waited since the first try.
    pub waited: Duration,
    /// The limit that the request sets to the wait. It overrides the strategy's own.
    pub wait_limit: Option<Duration>,
    /// What is left of the holder's lease, where known. A holder that renews keeps it longer.
    pub holder_remaining: Option<Duration>,
    /// The number of others that wait for the key, where known.
    pub waiters: Option<usize>,
    /// The number of requests a second of this process that lately found the key held, this one included. Known where
    /// the strategy [uses](super::Strategy::uses_rate) it.
    pub rate: Option<f64>,
    /// Whether the caller is told when the key is granted to it, or when it is its turn to ask: it is in the store's
    /// queue, or waits behind others of its process. A pause then delays no question to the store: after it, only the
    /// strategy is asked again. Such a pause counts as one of [`attempts`](Self::attempts), and most are cut short at 1 s.
    pub notified: bool,
    /// A random number, uniform in 0..1, that the caller draws anew for every decision.
    pub jitter: f64,
}

impl Contention {
    /// The first try: no wait so far, nothing known of the holder or of others, and no notification to expect. `jitter`
    /// is 0.5.
    #[must_use]
    pub fn new() -> Self {
        Self {
            attempts: 1,
            waited: Duration::ZERO,
            wait_limit: None,
            holder_remaining: None,
            waiters: None,
            rate: None,
            notified: false,
            jitter: 0.5,
        }
    }

    /// Sets [`attempts`](Self::attempts).
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets [`waited`](Self::waited).
    #[must_use]
    pub fn with_waited(mut self, waited: Duration) -> Self {
        self.waited = waited;
        self
    }

    /// Sets [`wait_limit`](Self::wait_limit).
    #[must_use]
    pub fn with_wait_limit(mut self, limit: Option<Duration>) -> Self {
        self.wait_limit = limit;
        self
    }

    /// Sets [`holder_remaining`](Self::holder_remaining).
    #[must_use]
    pub fn with_holder_remaining(mut self, remaining: Option<Duration>) -> Self {
        self.holder_remaining = remaining;
        self
    }

    /// Sets [`waiters`](Self::waiters).
    #[must_use]
    pub fn with_waiters(mut self, waiters: Option<usize>) -> Self {
        self.waiters = waiters;
        self
    }

    /// Sets [`rate`](Self::rate).
    #[must_use]
    pub fn with_rate(mut self, rate: Option<f64>) -> Self {
        self.rate = rate;
        self
    }

    /// Sets [`notified`](Self::notified).
    #[must_use]
    pub fn with_notified(mut self, notified: bool) -> Self {
        self.notified = notified;
        self
    }

    /// Sets [`jitter`](Self::jitter).
    #[must_use]
    pub fn with_jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }
}

impl Default for Contention {
    fn default() -> Self {
        Self::new()
    }
}
