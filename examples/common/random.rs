//! Random numbers that are good enough for pauses.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Returns a number below `end`, which is at least 1.
pub(crate) fn below(end: u64) -> u64 {
    // Each `RandomState` has random keys, so the hash of 0 is a random number.
    RandomState::new().hash_one(0) % end
}

/// Returns a duration between `shortest` and `longest`.
pub(crate) fn between(shortest: Duration, longest: Duration) -> Duration {
    let span = longest.saturating_sub(shortest).as_micros();
    shortest + Duration::from_micros(below(u64::try_from(span).unwrap_or(u64::MAX).max(1)))
}
