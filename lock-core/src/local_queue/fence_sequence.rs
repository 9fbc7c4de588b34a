//! Assigns fencing tokens to the holders of a process without requests to the store.

use crate::backend::FencingToken;
use crate::clock::Moment;

/// The sequence of fencing tokens of the holders that share one grant by hand-off.
///
/// The tokens of some stores are at least the store's time in microseconds ([`Fencing::StoreTime`]). With such a store,
/// a process numbers its own holders: each holder gets the next number. The number stays below a time that the store's
/// clock has certainly reached while this process had the grant. The token of a later owner is at least the time of its
/// grant. So that token is larger, even if the store has lost the record of this grant. The process does not use its
/// own clock as the limit, because its clock continues after the grant is lost.
///
/// [`Fencing::StoreTime`]: crate::backend::Fencing::StoreTime
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FenceSequence {
    /// The last token that the store made for the grant. Its value was the store's time.
    first: FencingToken,
    /// When that token arrived. The store made it before this time.
    arrived: Moment,
    /// The last number that was assigned.
    last: FencingToken,
}

impl FenceSequence {
    /// Makes a sequence that begins with a token of the store, which arrived at `arrived`.
    pub(crate) fn new(first: FencingToken, arrived: Moment) -> Self {
        Self { first, arrived, last: first }
    }

    /// Returns the token of the holder that has this sequence.
    pub(crate) fn token(self) -> FencingToken {
        self.last
    }

    /// Returns the sequence with the next number, if the store's clock had certainly passed that number at `confirmed`.
    /// `confirmed` is the time at which the last successful request was sent. The store executed that request later.
    pub(crate) fn next(self, confirmed: Moment) -> Option<Self> {
        let between = confirmed.remaining(self.arrived);
        // One percent is subtracted, as for a lease, because clocks run at different speeds.
        let passed = u64::try_from((between - between / 100).as_micros()).unwrap_or(u64::MAX);
        // A third-party store may have returned the largest number.
        let last = self.last.get().checked_add(1)?;
        (last < self.first.get().saturating_add(passed))
            .then_some(Self { last: FencingToken::new(last), ..self })
    }

    /// Returns the sequence with the number after `earlier`. `self` must begin with a token that the store has just
    /// made; the number stays below this token.
    pub(crate) fn next_after(self, earlier: Self) -> Option<Self> {
        Self { last: earlier.last, ..self }.next(self.arrived)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_process_numbers_its_turns_no_further_than_the_store_has_confirmed() {
        let start = Clock::Suspend.now();
        let at = |us| start.plus(Duration::from_micros(us));
        let first = FencingToken::new(1_000);
        let sequence = FenceSequence { first, arrived: start, last: first };
        let before = Moment::from_parts({
            let (mono, boot) = start.parts();
            (mono - 5_000_000, boot - 5_000_000)
        });
        for early in [before, at(0), at(1), at(2)] {
            assert_eq!(sequence.next(early), None, "the store's clock may show the first number yet");
        }
        let one = sequence.next(at(3)).expect("a microsecond has certainly passed");
        assert_eq!((one.last.get(), one.first, one.arrived), (1_001, first, start));
        assert_eq!(one.next(at(3)), None);
        assert_eq!(one.next(at(50)).expect("time has passed").last.get(), 1_002, "the next, not the time");
        let largest = std::iter::successors(Some(sequence), |last| last.next(at(1_000))).last();
        assert_eq!(largest.map(|largest| largest.last.get()), Some(1_989), "1 % for the speed of clocks");
    }

    #[test]
    fn the_largest_number_has_no_next_one() {
        let start = Clock::Suspend.now();
        let largest = FencingToken::new(u64::MAX);
        let sequence = FenceSequence { first: largest, arrived: start, last: largest };
        assert_eq!(sequence.next(start.plus(Duration::from_secs(1))), None);
    }

    #[test]
    fn the_clock_that_shows_less_time_counts() {
        let start = Clock::Suspend.now();
        let first = FencingToken::new(1_000);
        let sequence = FenceSequence { first, arrived: start, last: first };
        let (mono, boot) = start.parts();
        assert_eq!(sequence.next(Moment::from_parts((mono, boot + 1_000_000))), None, "the machine slept");
        assert_eq!(sequence.next(Moment::from_parts((mono + 1_000_000, boot))), None);
    }
}
