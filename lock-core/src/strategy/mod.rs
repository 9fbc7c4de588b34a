//! Strategies decide what a request does when the key is held.
//!
//! A strategy is a pure function. It receives the known facts about the contention, and returns a decision. A strategy
//! never waits, reads a clock or draws a random number. The acquire loop does all this, and passes the results to the
//! strategy.
//!
//! | strategy | when the key is held | for |
//! | --- | --- | --- |
//! | [`retry()`] | waits up to 5 s, then fails with `TimedOut`; the default | work that a caller waits for |
//! | [`retry_or_skip()`] | waits up to 5 s, then skips | work that may be skipped, but rarely should |
//! | [`fail_fast()`] | fails at once with `Contended` | requests that must answer now; double clicks |
//! | [`skip()`] | skips at once | jobs that every machine starts and one should do; with `min_hold` |
//! | [`wait()`] | waits forever | work in the background that must happen |
//! | [`shed()`] | waits like another strategy; fails at once with `Overloaded` if many wait | hot keys under load |
//! | [`shed_above()`] | waits like another strategy; fails at once with `Overloaded` above a rate | the same, before a queue builds up |
//!
//! A strategy also decides how long a request tolerates an unavailable store. [`wait()`] waits through an outage, and a
//! strategy with a limit waits until its limit.
//!
//! If a request *skips*, the body does not run, and this is not a failure. A function with the attribute returns `None`
//! or `()`, and [`LockError::is_skipped`](crate::LockError::is_skipped) is true. If every machine starts a short job
//! with `skip()`, but without `min_hold`, several machines may still run the job one after another.
//!
//! A [`NamedStrategy`] is parsed from a text such as `retry` or `shed_above(200)`, for example in a configuration file.
//!
//! # A strategy of your own
//!
//! This strategy waits only for a holder whose lease is about to end:
//!
//! ```
//! use std::borrow::Cow;
//! use std::time::Duration;
//!
//! use lock_core::strategy::{Backoff, Contention, Decision, Strategy};
//!
//! #[derive(Debug)]
//! struct OnlyIfSoon(Duration);
//!
//! impl Strategy for OnlyIfSoon {
//!     fn decide(&self, contention: &Contention) -> Decision {
//!         match contention.holder_remaining {
//!             Some(remaining) if remaining <= self.0 => {
//!                 Decision::RetryAfter(Backoff::default().delay(contention, None))
//!             }
//!             _ => Decision::Fail,
//!         }
//!     }
//!
//!     fn name(&self) -> Cow<'static, str> {
//!         "only_if_soon".into()
//!     }
//! }
//!
//! let strategy = OnlyIfSoon(Duration::from_secs(1));
//! let mut contention = Contention::new();
//! assert_eq!(strategy.decide(&contention), Decision::Fail);
//! contention.holder_remaining = Some(Duration::from_millis(300));
//! assert!(matches!(strategy.decide(&contention), Decision::RetryAfter(_)));
//! ```

mod backoff;
mod contention;
mod fail_fast;
mod named;
mod policy;
mod retry;
mod shed;
mod shed_above;
mod skip;
#[cfg(test)]
mod tests;
mod wait;

pub use backoff::Backoff;
pub use contention::Contention;
pub use fail_fast::{FailFast, fail_fast};
pub use named::NamedStrategy;
pub use policy::{Decision, Strategy};
pub use retry::{Retry, RetryOrSkip, retry, retry_or_skip};
pub use shed::{Shed, shed};
pub use shed_above::{ShedAbove, shed_above};
pub use skip::{Skip, skip};
pub use wait::{Wait, wait};
