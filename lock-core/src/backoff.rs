//! Provides the pauses between retries inside the library. The pauses between the attempts to acquire a lock are
//! defined by a [strategy](crate::strategy), which also uses [`doubled`], and adds jitter.

use std::time::Duration;

/// Returns `first`, doubled `times` times and limited to `longest`.
pub(crate) fn doubled(first: Duration, longest: Duration, times: u32) -> Duration {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

/// A series of pauses that double from the first to the longest.
#[derive(Clone, Debug)]
pub(crate) struct Pauses {
    first: Duration,
    longest: Duration,
    given: u32,
    /// The minimum of the next pause.
    at_least: Duration,
}

impl Pauses {
    /// Creates a series of pauses. A `first` above `longest` counts as `longest`.
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, given: 0, at_least: Duration::ZERO }
    }

    /// Returns the next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = doubled(self.first, self.longest, self.given);
        self.given = self.given.saturating_add(1);
        pause.max(std::mem::take(&mut self.at_least))
    }

    /// Sets a minimum for the next pause only.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only Postgres asks for it"))]
    pub(crate) fn next_at_least(&mut self, pause: Duration) {
        self.at_least = pause;
    }

    /// Restarts with the first pause. Call this when an attempt has succeeded.
    pub(crate) fn reset(&mut self) {
        self.given = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew() {
        let ms = Duration::from_millis;
        let table = [
            (25, 90, [25, 50, 90, 90]),
            (20, 1000, [20, 40, 80, 160]),
            (25, 10, [10, 10, 10, 10]),
            (0, 10, [0, 0, 0, 0]),
        ];
        for (first, longest, expected) in table {
            let mut pauses = Pauses::new(ms(first), ms(longest));
            assert_eq!([(); 4].map(|()| pauses.next()), expected.map(ms), "{first} {longest}");
            pauses.reset();
            pauses.next_at_least(ms(2_000));
            assert_eq!(pauses.next(), ms(2_000), "{first} {longest}");
            pauses.reset();
            assert_eq!(pauses.next(), ms(expected[0]), "{first} {longest}");
        }
    }

    #[test]
    fn no_number_of_doublings_overflows() {
        let table = [
            (1, 30, 1 << 30),
            (1, 31, 1 << 31),
            (1, 32, u64::from(u32::MAX)),
            (3, u32::MAX, 3 * u64::from(u32::MAX)),
        ];
        for (first, times, expected) in table {
            let pause = doubled(Duration::from_secs(first), Duration::MAX, times);
            assert_eq!(pause, Duration::from_secs(expected), "{first} {times}");
        }
        assert_eq!(doubled(Duration::MAX, Duration::MAX, 1), Duration::MAX);
    }
}
