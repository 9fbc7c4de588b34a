//! Counts durations in buckets, to compute percentiles of many durations.

use std::collections::BTreeMap;
use std::time::Duration;

/// The range between two powers of two has `1 << STEPS` buckets, so the error of a percentile is 6 % at most.
const STEPS: u32 = 3;
/// Each number below this has its own bucket.
const EXACT: u64 = 1 << (STEPS + 1);

#[derive(Clone, Debug, Default)]
pub(super) struct Histogram(BTreeMap<u16, u32>);

impl Histogram {
    pub(super) fn add(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let count = self.0.entry(bucket(micros)).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (bucket, added) in &other.0 {
            let count = self.0.entry(*bucket).or_default();
            *count = count.saturating_add(*added);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.values().map(|count| u64::from(*count)).sum()
    }

    /// Returns the time, in milliseconds, that `percent` of the durations do not exceed. Returns `None` if there are no
    /// durations.
    pub(super) fn percentile_ms(&self, percent: u64) -> Option<f64> {
        let rank = (self.count() * percent).div_ceil(100).max(1);
        let mut passed = 0;
        let found = self.0.iter().find(|(_, count)| {
            passed += u64::from(**count);
            passed >= rank
        });
        #[allow(clippy::cast_precision_loss, reason = "53 bits of microseconds are 285 years")]
        found.map(|(bucket, _)| middle(*bucket) as f64 / 1_000.0)
    }
}

fn bucket(number: u64) -> u16 {
    if number < EXACT {
        return u16::try_from(number).unwrap_or_default();
    }
    let power = number.ilog2();
    let step = (number >> (power - STEPS)) & ((1 << STEPS) - 1);
    let below = EXACT + u64::from(power - STEPS - 1) * (1 << STEPS);
    u16::try_from(below + step).unwrap_or(u16::MAX)
}

/// Returns the middle of a bucket.
fn middle(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let Some(above) = bucket.checked_sub(EXACT) else { return bucket };
    let shift = above >> STEPS;
    let step = above & ((1 << STEPS) - 1);
    // The bucket has `1 << (shift + 1)` numbers, and starts at `first << (shift + 1)`.
    let first = (1 << STEPS) + step;
    (first << (shift + 1)) + (1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_near_the_middle_of_its_bucket() {
        let mut before = None;
        for number in
            (0..2_000).chain((11..63).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]))
        {
            let middle = middle(bucket(number));
            assert!(middle.abs_diff(number) <= number / 15, "{number}: {middle}");
            assert!(before <= Some(bucket(number)), "{number}");
            before = Some(bucket(number));
        }
        assert!(middle(bucket(u64::MAX)) > u64::MAX / 2);
    }

    #[test]
    fn percentiles() {
        let of = |micros: &[u64]| {
            let mut times = Histogram::default();
            micros.iter().for_each(|micros| times.add(Duration::from_micros(*micros)));
            times
        };
        assert_eq!(of(&[]).percentile_ms(50), None);
        let one_to_ten: Vec<u64> = (1..=10).collect();
        let table = [(50, 0.005), (99, 0.01), (100, 0.01), (10, 0.001), (11, 0.002), (0, 0.001)];
        for (percent, expected) in table {
            assert_eq!(of(&one_to_ten).percentile_ms(percent), Some(expected), "{percent}");
        }
        let mut both = of(&[1; 99]);
        both.merge(&of(&[15]));
        assert_eq!((both.percentile_ms(99), both.percentile_ms(100)), (Some(0.001), Some(0.015)));
    }
}
