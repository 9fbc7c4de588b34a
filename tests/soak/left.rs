//! The checks of the samples.

use std::time::Duration;

use super::meter::Sample;

/// The time in which memory may still grow, because the stores keep leases, names and grants for a while.
const WARM: Duration = Duration::from_secs(60);

/// The largest number of entries of one key in a store: two keys of a claim, each with a row, a holder and a few
/// waiters.
const EACH: usize = 8;

/// The number of entries that does not depend on the number of keys: locks of the tasks, and leases that expire later.
const ALWAYS: usize = 1_024;

/// Checks that the server never kept more entries than are created within `keeps`, and that the process does not grow.
pub(crate) fn check(samples: &[Sample], keeps: Duration) {
    for (at, sample) in samples.iter().enumerate() {
        let then = sample.at.saturating_sub(keeps);
        let before = samples[..at].iter().rev().find(|before| before.at <= then);
        let made = sample.keys - before.map_or(0, |before| before.keys);
        assert!(sample.left <= made * EACH + ALWAYS, "{sample:?}, where {keeps:?} made {made} keys");
    }
    let warm: Vec<&Sample> = samples.iter().filter(|sample| sample.at >= WARM).collect();
    let (Some(first), Some(last)) = (warm.first(), warm.last()) else { return };
    let most = first.memory + first.memory / 2 + 32 * 1024;
    assert!(last.memory <= most, "the memory grows: {first:?}, {last:?}");
    assert!(last.descriptors <= first.descriptors + 16, "descriptors: {first:?}, {last:?}");
}
