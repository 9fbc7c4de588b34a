//! Detects that the clock of a server was set, by comparing its readings with the time that passed in this process.

use crate::backend::redis::link::micros;
use crate::clock::Moment;

/// The largest deviation of a clock that counts as noise, in us. The tolerance is far above the noise of a network, and
/// far below any step by which a clock would be set.
pub(super) const TOLERANCE: i64 = 50_000;

/// The allowed drift between the two clocks, in us per second: twice the rate at which `adjtime` adjusts a clock.
const DRIFT_PER_SECOND: i64 = 1_000;

/// The offset of a server's clock from the local clock, in us. The offset is between two bounds. The distance of the
/// bounds is the round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) least: i64,
    pub(super) most: i64,
    /// The time of the reading, in us on the local clock.
    pub(super) at: i64,
}

impl Reading {
    /// Creates the reading of a server that answered `now` (us) at some time between `sent` and `received`.
    pub(super) fn new(now: i64, sent: Moment, received: Moment) -> Self {
        let (sent, received) = (micros(sent), micros(received));
        Self { least: now.saturating_sub(received), most: now.saturating_sub(sent), at: received }
    }

    pub(super) fn middle(self) -> i64 {
        self.least.midpoint(self.most)
    }

    /// Returns this reading at the later time `at`. The bounds are wider by the allowed drift.
    fn aged(self, at: i64) -> Self {
        let age = at.saturating_sub(self.at).max(0);
        let drift = (age / 1_000_000).saturating_mul(DRIFT_PER_SECOND).saturating_add(1);
        Self { least: self.least.saturating_sub(drift), most: self.most.saturating_add(drift), at }
    }

    /// Returns by how much this offset is certainly larger than `other`. The result is negative if it is smaller, and 0
    /// if the bounds overlap.
    pub(super) fn beyond(self, other: Self) -> i64 {
        // Only a gap between the bounds proves a difference. If they overlap, the offset may be the same.
        if self.least > other.most {
            self.least.saturating_sub(other.most)
        } else {
            self.most.saturating_sub(other.least).min(0)
        }
    }
}

/// The readings of one server's clock.
#[derive(Debug, Default)]
pub(super) struct ClockGuard {
    last: Option<Reading>,
}

impl ClockGuard {
    /// Returns the current reading, or `None` before the first one.
    pub(super) fn last(&self) -> Option<Reading> {
        self.last
    }

    /// Records a reading. If the clock was certainly set since the last reading, returns the size of that step in us.
    pub(super) fn observe(&mut self, reading: Reading) -> Option<i64> {
        let Some(last) = self.last else {
            self.last = Some(reading);
            return None;
        };
        // `max` is needed because each runtime has its own connection, so answers may not be recorded in the order of
        // their arrival.
        let known = last.aged(reading.at.max(last.at));
        let step = reading.beyond(known);
        // If the bounds of both readings overlap, their common range is kept. So a slow answer with wide bounds does
        // not hide a later step. After a step of the clock, the old bounds are useless.
        self.last = Some(match step {
            0 => Reading {
                least: known.least.max(reading.least),
                most: known.most.min(reading.most),
                at: known.at,
            },
            _ => reading,
        });
        (step.abs() > TOLERANCE).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a reading: the server's clock is `ahead` at the time `at`, and the answer takes `took`, in ms.
    fn reading(ahead: i64, at: i64, took: i64) -> Reading {
        let (sent, received) = (at * 1_000, (at + took) * 1_000);
        let said = sent + took * 500 + ahead * 1_000;
        Reading { least: said - received, most: said - sent, at: received }
    }

    #[test]
    fn only_a_certain_step_is_one() {
        // Columns: two readings (how far the server is ahead, when, how long the answer took), and the step in ms.
        let table = [
            ((0, 0, 1), (0, 500, 1), None),
            ((0, 0, 1), (40, 500, 1), None),
            ((0, 0, 0), (51, 1, 0), Some(50)),
            ((0, 0, 1), (31_000, 500, 1), Some(30_998)),
            ((0, 0, 1), (-3_600_000, 500, 1), Some(-3_599_998)),
            // An answer that took 400 ms does not prove a step of 150 ms, but proves a step of 500 ms.
            ((0, 0, 1), (150, 500, 400), None),
            ((0, 0, 1), (500, 500, 400), Some(299)),
            // An hour without contact: a deviation of 0.1 % is not a step.
            ((0, 0, 1), (3_500, 3_600_000, 1), None),
            ((0, 0, 1), (3_700, 3_600_000, 1), Some(98)),
        ];
        for ((ahead, at, took), (ahead2, at2, took2), expected) in table {
            let mut guard = ClockGuard::default();
            assert_eq!(guard.observe(reading(ahead, at, took)), None);
            let step = guard.observe(reading(ahead2, at2, took2));
            assert_eq!(step.map(|step| step / 1_000), expected, "{ahead2} ms at {at2} ms in {took2} ms");
        }
    }

    #[test]
    fn a_slow_answer_hides_no_later_step() {
        let mut guard = ClockGuard::default();
        for (ahead, at, took) in [(0, 0, 1), (0, 100, 800), (0, 1_000, 800)] {
            assert_eq!(guard.observe(reading(ahead, at, took)), None);
        }
        assert!(guard.observe(reading(70, 2_000, 1)).is_some());
        // A step is reported once. After that, the new offset is the known offset.
        assert_eq!(guard.observe(reading(70, 2_100, 1)), None);
    }

    #[test]
    fn a_clock_that_is_slewed_was_not_set() {
        let mut guard = ClockGuard::default();
        for second in 0..600 {
            assert_eq!(guard.observe(reading(second / 2, second * 1_000, 1)), None, "second {second}");
        }
    }
}
