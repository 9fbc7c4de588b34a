//! Defines the strategy that waits forever.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Backoff, Contention, Decision, Strategy};

/// Waits forever; see [`wait`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    backoff: Backoff,
}

/// Waits without a time limit until the key is free.
///
/// Use this for work in the background that must happen. The wait also ends if the caller drops the future. A request
/// that sets a limit is refused.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_core::strategy::{Contention, Decision, Strategy, wait};
///
/// let late = Contention::new().with_waited(Duration::from_secs(86_400));
/// assert!(matches!(wait().decide(&late), Decision::RetryAfter(_)));
/// ```
#[must_use]
pub fn wait() -> Wait {
    Wait::default()
}

impl Wait {
    /// Sets the pauses between attempts.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }
}

impl Strategy for Wait {
    fn decide(&self, contention: &Contention) -> Decision {
        Decision::RetryAfter(self.backoff.delay(contention, None))
    }

    fn name(&self) -> Cow<'static, str> {
        "wait".into()
    }

    fn with_backoff(&self, backoff: Backoff) -> Option<Arc<dyn Strategy>> {
        Some(Arc::new(self.backoff(backoff)))
    }
}
