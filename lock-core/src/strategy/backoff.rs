//! How long to pause between two tries.

use std::time::Duration;

use super::Contention;
use crate::backoff::doubled;

/// Exponential backoff with full jitter.
///
/// Before the try after the `n`-th, the pause is uniform between zero and `min(max, base * 2^(n - 1))`: the first pause
/// is at most `base`, and the bound doubles from there on. Drawing from the whole range, instead of around its end,
/// keeps callers that started together from coming back together; with many of them it needs the fewest tries (Marc
/// Brooker, *Exponential Backoff And Jitter*, AWS Architecture Blog, 2015).
///
/// A pause is at least 1 ms, so that no caller spins. It ends 1 ms after the holder's lease, if that is known, because
/// the key may be free then. It never exceeds the rest of the wait, so the last try comes at the very end of the wait.
///
/// A caller that is [notified](Contention::notified) sends no request after a pause, so its pause is not random: it is
/// 1 s, or the rest of the wait.
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
    pub const DEFAULT_BASE: Duration = Duration::from_millis(5);
    /// The default of `max`: 200 ms.
    pub const DEFAULT_MAX: Duration = Duration::from_millis(200);

    /// How often the strategy of a notified waiter is called. This is the only cost of thousands of waiters while they
    /// wait.
    const TOLD: Duration = Duration::from_secs(1);
    const FLOOR: Duration = Duration::from_millis(1);
    /// How long after the end of the holder's lease the next try comes: stores count in milliseconds and round.
    const AFTER_LEASE: Duration = Duration::from_millis(1);

    /// Makes a backoff with a first pause of at most `base`, doubling up to `max`. A `base` above `max` counts as
    /// `max`.
    #[must_use]
    pub const fn exponential(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }

    /// Returns the pause before the next try; `left` is the rest of the wait, `None` when it has no end.
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

    /// Returns the longest pause after `attempts` tries.
    fn bound(&self, attempts: u32) -> Duration {
        doubled(self.base, self.max, attempts.saturating_sub(1))
    }
}

impl Default for Backoff {
    /// [`DEFAULT_BASE`](Self::DEFAULT_BASE) and [`DEFAULT_MAX`](Self::DEFAULT_MAX).
    fn default() -> Self {
        Self::exponential(Self::DEFAULT_BASE, Self::DEFAULT_MAX)
    }
}

/// `duration * fraction`. This is done in integers, because `Duration::mul_f64` panics if rounding exceeds
/// `Duration::MAX`. A fraction that is not a number counts as 1: the longer pause is the safe one.
fn scale(duration: Duration, fraction: f64) -> Duration {
    const ONE: u128 = 1 << 32;
    let fraction = if fraction.is_nan() { 1.0 } else { fraction.clamp(0.0, 1.0) };
    // At most 2^94 nanoseconds times 2^32 fit 128 bits.
    let nanos = duration.as_nanos() * u128::from((fraction * ONE as f64) as u64) / ONE;
    // Every pause shorter than centuries takes this branch, because a division of 128 bits takes a hundred
    // instructions.
    if let Ok(nanos) = u64::try_from(nanos) {
        return Duration::from_nanos(nanos);
    }
    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    match (u64::try_from(seconds), u32::try_from(nanos)) {
        (Ok(seconds), Ok(nanos)) => Duration::new(seconds, nanos),
        _ => duration,
    }
}
