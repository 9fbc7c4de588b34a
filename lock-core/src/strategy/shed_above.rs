//! Defines the strategy that fails at once if too many requests arrive per second.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Backoff, Contention, Decision, Strategy};

/// Waits like another strategy at a low rate of requests, and fails at once at a high rate; see [`shed_above`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShedAbove<S> {
    inner: S,
    rate: u32,
}

/// Decides like `inner` if at most `rate` requests per second find the key held. At higher rates, a new request fails
/// at once with [`Overloaded`](crate::LockErrorKind::Overloaded).
///
/// [`shed`](super::shed()) counts waiters, and this strategy counts requests per second. So this strategy refuses new
/// requests before a queue builds up, and the right value of `rate` does not depend on how long each caller holds the
/// lock. The rate is the number of requests of this process that found this key held during the last second, including
/// this request. Refused requests count too, so the refusals do not lower the rate. The rate is checked only when a
/// request arrives, so that a waiter does not lose its place later. If `inner` would not wait, or if the rate is
/// unknown, the decision of `inner` applies.
///
/// In a text, `shed_above(200)` names this strategy with [`retry`](super::retry()) as `inner`.
///
/// # Examples
///
/// ```
/// use lock_core::strategy::{Contention, Decision, Strategy, retry, shed_above};
///
/// let strategy = shed_above(retry(), 200);
/// let quiet = Contention::new().with_rate(Some(200.0));
/// let busy = Contention::new().with_rate(Some(200.5));
/// assert!(matches!(strategy.decide(&quiet), Decision::RetryAfter(_)));
/// assert_eq!(strategy.decide(&busy), Decision::Shed);
/// ```
#[must_use]
pub fn shed_above<S: Strategy>(inner: S, rate: u32) -> ShedAbove<S> {
    ShedAbove { inner, rate }
}

impl<S: Strategy> Strategy for ShedAbove<S> {
    fn decide(&self, contention: &Contention) -> Decision {
        let decision = self.inner.decide(contention);
        let arrives = contention.attempts <= 1;
        let busy = contention.rate.is_some_and(|rate| rate > f64::from(self.rate));
        if matches!(decision, Decision::RetryAfter(_)) && arrives && busy { Decision::Shed } else { decision }
    }

    fn name(&self) -> Cow<'static, str> {
        format!("shed_above({})", self.inner.name()).into()
    }

    fn takes_wait_limit(&self) -> bool {
        self.inner.takes_wait_limit()
    }

    fn uses_rate(&self) -> bool {
        true
    }

    fn with_backoff(&self, backoff: Backoff) -> Option<Arc<dyn Strategy>> {
        let inner = self.inner.with_backoff(backoff)?;
        Some(Arc::new(shed_above(inner, self.rate)))
    }
}
