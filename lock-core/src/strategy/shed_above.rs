//! Failing at once while requests come too fast.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Backoff, Contention, Decision, Strategy};

/// Waits like another strategy while few requests come, and fails at once while many come; see [`shed_above`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShedAbove<S> {
    inner: S,
    pub(super) rate: u32,
}

/// Decides like `inner` while at most `rate` requests a second find the key held. Above that, a newcomer fails at once
/// with [`Overloaded`](crate::LockErrorKind::Overloaded).
///
/// [`shed`](super::shed()) counts waiters, and this counts requests a second: it refuses newcomers before a queue has
/// built up, and needs no number that depends on how long each holds the lock. The rate counts the requests of this
/// process for this key that found it held, this one included, over the last second. Refused requests count too, so
/// that it is the rate of the callers. The rate is checked on arrival only, so that a waiter does not lose its turn
/// later. An `inner` that would not wait decides alone, and so does any `inner` if the rate is not known.
///
/// As a text it is `shed_above(200)`, with [`retry`](super::retry()) as `inner`.
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

    fn uses_waiters(&self) -> bool {
        self.inner.uses_waiters()
    }

    fn with_backoff(&self, backoff: Backoff) -> Option<Arc<dyn Strategy>> {
        let inner = self.inner.with_backoff(backoff)?;
        Some(Arc::new(shed_above(inner, self.rate)))
    }
}
