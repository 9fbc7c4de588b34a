//! The trait, and what it answers.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Backoff, Contention};

/// What to do when the key is held; see the [module](super) for the ones there are and for how to write one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no strategy",
    label = "expected a strategy, such as `strategy::retry()`",
    note = "there are `fail_fast()`, `skip()`, `retry()`, `retry_or_skip()`, `wait()` and `shed(inner, max_waiters)`; a \
            name in a text is read with `text.parse::<NamedStrategy>()?`"
)]
pub trait Strategy: fmt::Debug + Send + Sync + 'static {
    /// Decides after a try that found the key held.
    ///
    /// A pure function of its arguments: no I/O, no clock, no randomness of its own ([`Contention::jitter`] is drawn by
    /// the caller), and it must not panic.
    fn decide(&self, contention: &Contention) -> Decision;

    /// Its name in spans and errors, such as `retry`.
    fn name(&self) -> Cow<'static, str>;

    /// Whether [`Contention::wait_limit`] means something to it. A request that sets a limit for a strategy without one
    /// is refused instead of being ignored. Default: `false`.
    fn takes_wait_limit(&self) -> bool {
        false
    }

    /// The same strategy with other pauses between tries; `None` for one that does not pause, or whose pauses are not a
    /// [`Backoff`]. A request that sets a backoff for such a strategy is refused instead of being ignored. Default:
    /// `None`.
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

    fn with_backoff(&self, backoff: Backoff) -> Option<Arc<dyn Strategy>> {
        (**self).with_backoff(backoff)
    }
}

/// What a [`Strategy`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Try again after this time, or sooner when the key is known to be free.
    RetryAfter(Duration),
    /// Give up: `Contended` when nobody waited, else `TimedOut`.
    Fail,
    /// Do without: the body does not run, and nothing is wrong.
    Skip,
    /// Give up because too many wait: `Overloaded`. Not a kind of `Fail`, because callers treat load differently from a key
    /// that is held.
    Shed,
}
