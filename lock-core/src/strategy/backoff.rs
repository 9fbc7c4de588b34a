//! Calculates the pause between two attempts.

use std::time::Duration;

use super::Contention;
use crate::backoff::doubled;
use crate::words::backoff as defaults;

/// An exponential backoff with full jitter.
///
/// After the `n`-th attempt, the pause is uniformly random between zero and `min(max, base * 2^(n - 1))`. So the first
/// pause is at most `base`, and the bound then doubles each time. The pause is drawn from the whole range, not only
/// from its upper part. This separates callers that started together, and needs the fewest attempts if there are many
/// callers (Marc Brooker, *Exponential Backoff And Jitter*, AWS Architecture Blog, 2015).
///
/// A pause is at least 1 ms, so that no caller spins. If the end of the holder's lease is known, the pause ends at most
/// 1 ms after that end, because the key may then be free. The pause never exceeds the rest of the wait, so the last
/// attempt is made at the end of the wait.
///
/// A caller that is [notified](Contention::notified) sends no request after a pause, so its pause need not be random.
/// The pause is 1 s, or the rest of the wait if that is shorter.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_core::strategy::{Backoff, Contention};
///
/// let backoff = Backoff::exponential(Duration::from_millis(10), Duration::from_secs(1));
/// let third = Contention::new().with_attempts(3).with_jitter(0.5);
/// assert_eq!(backoff.delay(&third, None), Duration::from_millis(20));
/// assert_eq!(backoff.delay(&third, Some(Duration::from_millis(7))), Duration::from_millis(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    max: Duration,
}

impl Backoff {
    /// The default of `base`: 5 ms.
    pub const DEFAULT_BASE: Duration = defaults::BASE;
    /// The default of `max`: 200 ms.
    pub const DEFAULT_MAX: Duration = defaults::MAX;

    /// The pause of a notified waiter. After the pause, the waiter calls its strategy, and sends no request.
    const TOLD: Duration = Duration::from_secs(1);
    const FLOOR: Duration = Duration::from_millis(1);
    /// The pause between the end of the holder's lease and the next attempt. Stores round times to milliseconds.
    const AFTER_LEASE: Duration = Duration::from_millis(1);

    /// Creates a backoff whose first pause is at most `base`. The bound then doubles up to `max`. A `base` above `max`
    /// counts as `max`.
    #[must_use]
    pub const fn exponential(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }

    /// Returns the pause before the next attempt. `left` is the rest of the wait, or `None` if the wait has no limit.
    #[must_use]
    pub fn delay(&self, contention: &Contention, left: Option<Duration>) -> Duration {
        let left = left.unwrap_or(Duration::MAX);
        if contention.notified {
            return Self::TOLD.min(left);
        }
        let lease_end = contention.holder_remaining.map(|rest| rest.saturating_add(Self::AFTER_LEASE));
        scale(self.bound(contention.attempts), contention.jitter)
            .max(Self::FLOOR)
            .min(lease_end.unwrap_or(Duration::MAX))
            .min(left)
    }

    /// Returns the longest pause after `attempts` attempts.
    fn bound(&self, attempts: u32) -> Duration {
        doubled(self.base, self.max, attempts.saturating_sub(1))
    }
}

impl Default for Backoff {
    /// Returns a backoff with [`DEFAULT_BASE`](Self::DEFAULT_BASE) and [`DEFAULT_MAX`](Self::DEFAULT_MAX).
    fn default() -> Self {
        Self::exponential(Self::DEFAULT_BASE, Self::DEFAULT_MAX)
    }
}

/// Returns `duration * fraction`, at most `duration`. If the fraction is NaN, returns `duration`, because a longer pause
/// is safer.
fn scale(duration: Duration, fraction: f64) -> Duration {
    let scaled = Duration::try_from_secs_f64(duration.as_secs_f64() * fraction.clamp(0.0, 1.0));
    scaled.unwrap_or(duration).min(duration)
}
