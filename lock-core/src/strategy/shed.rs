//! Defines the strategy that waits only if few other requests wait.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Backoff, Contention, Decision, Strategy};

/// Waits like another strategy if few other requests wait, and fails at once if many wait; see [`shed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed<S> {
    inner: S,
    max_waiters: usize,
}

/// Decides like `inner` if fewer than `max_waiters` other requests wait for the key. Otherwise a new request fails at
/// once with [`Overloaded`](crate::LockErrorKind::Overloaded).
///
/// Use this for keys with many requests. Under load, the requests that would time out anyway fail at once. The number
/// of waiters is checked only when a request arrives, so that a waiter does not lose its place later. If `inner` would
/// not wait, or if the number of waiters is unknown, the decision of `inner` applies. If `max_waiters` is 0, every
/// request that would have to wait fails.
///
/// # Examples
///
/// ```
/// use lock_core::strategy::{Contention, Decision, Strategy, retry, shed};
///
/// let strategy = shed(retry(), 64);
/// let quiet = Contention::new().with_waiters(Some(63));
/// let busy = Contention::new().with_waiters(Some(64));
/// assert!(matches!(strategy.decide(&quiet), Decision::RetryAfter(_)));
/// assert_eq!(strategy.decide(&busy), Decision::Shed);
/// ```
#[must_use]
pub fn shed<S: Strategy>(inner: S, max_waiters: usize) -> Shed<S> {
    Shed { inner, max_waiters }
}

impl<S: Strategy> Strategy for Shed<S> {
    fn decide(&self, contention: &Contention) -> Decision {
        let decision = self.inner.decide(contention);
        let arrives = contention.attempts <= 1;
        let crowded = contention.waiters.is_some_and(|waiters| waiters >= self.max_waiters);
        if matches!(decision, Decision::RetryAfter(_)) && arrives && crowded {
            Decision::Shed
        } else {
            decision
        }
    }

    fn name(&self) -> Cow<'static, str> {
        format!("shed({})", self.inner.name()).into()
    }

    fn takes_wait_limit(&self) -> bool {
        self.inner.takes_wait_limit()
    }

    fn uses_rate(&self) -> bool {
        self.inner.uses_rate()
    }

    fn with_backoff(&self, backoff: Backoff) -> Option<Arc<dyn Strategy>> {
        let inner = self.inner.with_backoff(backoff)?;
        Some(Arc::new(shed(inner, self.max_waiters)))
    }
}
