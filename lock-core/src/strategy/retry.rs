//! Defines the strategies that wait up to a limit, and then fail or skip.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::{Backoff, Contention, Decision, Strategy};

/// The limit and the backoff, which `Retry` and `RetryOrSkip` have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounded {
    within: Duration,
    backoff: Backoff,
}

impl Bounded {
    fn new() -> Self {
        Self { within: Retry::DEFAULT_WAIT, backoff: Backoff::default() }
    }

    /// Returns a decision to pause before the next attempt, or `up` if the wait is over.
    fn decide(&self, contention: &Contention, up: Decision) -> Decision {
        let limit = contention.wait_limit.unwrap_or(self.within);
        let left = limit.saturating_sub(contention.waited);
        if left.is_zero() {
            return up;
        }
        Decision::RetryAfter(self.backoff.delay(contention, Some(left)))
    }
}

/// Waits up to a limit, then fails; see [`retry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry(Bounded);

/// Waits up to a limit, by default 5 s, then fails with [`TimedOut`](crate::LockErrorKind::TimedOut).
///
/// This is the default strategy. Use it for work whose result a caller waits for. The last attempt is made at the end
/// of the wait.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_core::strategy::{Contention, Decision, Strategy, retry};
///
/// let strategy = retry().within(Duration::from_secs(1));
/// assert!(matches!(strategy.decide(&Contention::new()), Decision::RetryAfter(_)));
/// let late = Contention::new().with_waited(Duration::from_secs(1));
/// assert_eq!(strategy.decide(&late), Decision::Fail);
/// ```
#[must_use]
pub fn retry() -> Retry {
    Retry(Bounded::new())
}

impl Retry {
    /// How long [`retry`] and [`retry_or_skip`] wait by default: 5 s.
    pub const DEFAULT_WAIT: Duration = Duration::from_secs(5);
}

/// Waits up to a limit, then skips; see [`retry_or_skip`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOrSkip(Bounded);

/// Waits up to a limit, by default 5 s, then skips. The body then does not run, and this is not a failure.
///
/// Use this for work that may be skipped, but rarely should be.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_core::strategy::{Contention, Decision, Strategy, retry_or_skip};
///
/// let late = Contention::new().with_waited(Duration::from_secs(5));
/// assert_eq!(retry_or_skip().decide(&late), Decision::Skip);
/// ```
#[must_use]
pub fn retry_or_skip() -> RetryOrSkip {
    RetryOrSkip(Bounded::new())
}

/// Implements both strategies, which differ only in their decision at the end of the wait.
macro_rules! bounded {
    ($strategy:ident, $new:ident, $end:expr) => {
        impl $strategy {
            /// Sets the limit of the wait. A limit of the request overrides this limit. With zero, the strategy does
            /// not wait.
            #[must_use]
            pub fn within(mut self, limit: Duration) -> Self {
                self.0.within = limit;
                self
            }

            /// Sets the pauses between attempts.
            #[must_use]
            pub fn backoff(mut self, backoff: Backoff) -> Self {
                self.0.backoff = backoff;
                self
            }
        }

        impl Default for $strategy {
            fn default() -> Self {
                $new()
            }
        }

        impl Strategy for $strategy {
            fn decide(&self, contention: &Contention) -> Decision {
                self.0.decide(contention, $end)
            }

            fn name(&self) -> Cow<'static, str> {
                stringify!($new).into()
            }

            fn takes_wait_limit(&self) -> bool {
                true
            }

            fn with_backoff(&self, backoff: Backoff) -> Option<Arc<dyn Strategy>> {
                Some(Arc::new(self.backoff(backoff)))
            }
        }
    };
}

bounded!(Retry, retry, Decision::Fail);
bounded!(RetryOrSkip, retry_or_skip, Decision::Skip);
