//! Defines [`Contention`], the input of a strategy.

use std::time::Duration;

/// The facts that are known when an attempt has found the key held.
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
    /// The number of attempts so far, including this one. It is 1 at the first decision.
    pub attempts: u32,
    /// How long the caller has waited since the first attempt.
    pub waited: Duration,
    /// The limit that the request sets for the wait. It overrides the limit of the strategy.
    pub wait_limit: Option<Duration>,
    /// The rest of the holder's lease, if known. A holder that renews its lease holds the key for longer.
    pub holder_remaining: Option<Duration>,
    /// The number of other requests that wait for the key, if known.
    pub waiters: Option<usize>,
    /// The number of requests of this process per second that have recently found the key held, including this request.
    /// The rate is known only if the strategy [uses](super::Strategy::uses_rate) it.
    pub rate: Option<f64>,
    /// Whether the caller waits in a queue, and is notified when it gets the key or is the next. The queue is in the
    /// store or in the caller's process. A pause of such a caller delays no request: after the pause, only the strategy
    /// is called again. Such a pause counts as one of the [`attempts`](Self::attempts). In the queue of a process, such
    /// a pause lasts at most 1 s.
    pub notified: bool,
    /// A uniformly random number in 0..1. The caller draws a new number for every decision.
    pub jitter: f64,
}

/// Generates the setters of the fields.
macro_rules! setters {
    ($($field:ident: $name:ident($value:ident: $type:ty);)*) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
        #[must_use]
        pub fn $name(mut self, $value: $type) -> Self {
            self.$field = $value;
            self
        }
    )*};
}

impl Contention {
    /// Creates the input for a first attempt: the caller has not waited yet, nothing is known about the holder or other
    /// waiters, and the caller is not notified. `jitter` is 0.5.
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

    setters! {
        attempts: with_attempts(attempts: u32);
        waited: with_waited(waited: Duration);
        wait_limit: with_wait_limit(limit: Option<Duration>);
        holder_remaining: with_holder_remaining(remaining: Option<Duration>);
        waiters: with_waiters(waiters: Option<usize>);
        rate: with_rate(rate: Option<f64>);
        notified: with_notified(notified: bool);
        jitter: with_jitter(jitter: f64);
    }
}

impl Default for Contention {
    fn default() -> Self {
        Self::new()
    }
}
