//! Defines the trait [`Strategy`] and its decisions.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Backoff, Contention};

/// Decides what to do when the key is held. The [module](super) lists the strategies and shows how to write one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no strategy",
    label = "expected a strategy, such as `strategy::retry()`",
    note = "there are `fail_fast()`, `skip()`, `retry()`, `retry_or_skip()`, `wait()`, `shed(inner, \
            max_waiters)` and `shed_above(inner, rate)`; a name in a text is read with `text.parse::<NamedStrategy>()?`"
)]
pub trait Strategy: fmt::Debug + Send + Sync + 'static {
    /// Returns the decision after an attempt that found the key held.
    ///
    /// This must be a pure function of its arguments. It must not panic, and must not use I/O, a clock or its own
    /// random numbers. For randomness, use [`Contention::jitter`].
    fn decide(&self, contention: &Contention) -> Decision;

    /// Returns the name that spans and errors show, such as `retry`.
    fn name(&self) -> Cow<'static, str>;

    /// Returns whether the strategy uses [`Contention::wait_limit`]. If it does not, a request that sets a limit is
    /// refused, because the limit must not be silently ignored. Default: `false`.
    fn takes_wait_limit(&self) -> bool {
        false
    }

    /// Returns whether the strategy uses [`Contention::rate`]. The rate is counted only for such strategies. Default:
    /// `false`.
    fn uses_rate(&self) -> bool {
        false
    }

    /// Returns the same strategy with `backoff` as its pauses between attempts. Returns `None` if the strategy does not
    /// pause, or if its pauses are not a [`Backoff`]. A request that sets a backoff is then refused, because the
    /// backoff must not be silently ignored. Default: `None`.
    fn with_backoff(&self, backoff: Backoff) -> Option<Arc<dyn Strategy>> {
        let _ = backoff;
        None
    }
}

impl<S: Strategy + ?Sized> Strategy for Arc<S> {
    fn decide(&self, contention: &Contention) -> Decision {
        (**self).decide(contention)
    }

    fn name(&self) -> Cow<'static, str> {
        (**self).name()
    }

    fn takes_wait_limit(&self) -> bool {
        (**self).takes_wait_limit()
    }

    fn uses_rate(&self) -> bool {
        (**self).uses_rate()
    }

    fn with_backoff(&self, backoff: Backoff) -> Option<Arc<dyn Strategy>> {
        (**self).with_backoff(backoff)
    }
}

/// The decision of a [`Strategy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Try again after this time, or earlier if the key becomes free.
    RetryAfter(Duration),
    /// Give up and fail: with `Contended` if the caller has not waited, otherwise with `TimedOut`.
    Fail,
    /// Skip the call. The body does not run, and this is not a failure.
    Skip,
    /// Fail with `Overloaded` because of too many requests. This is a separate decision, because callers treat load
    /// differently from a held key.
    Shed,
}
