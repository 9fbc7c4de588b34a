//! The fencing token of a hold: from the store, or counted on from the turn before.

use std::sync::atomic::{self, Ordering};

use super::Lease;
use crate::backend::{Fencing, FencingToken};
use crate::clock::Moment;
use crate::error::{LossReason, Result};

/// What the fencing tokens of the turns on one grant count on from.
///
/// Where a token is at least the store's time in microseconds ([`Fencing::StoreTime`]), a process numbers its own
/// turns: each the next number, below a time that the store certainly showed while the grant was this process's. Whoever
/// gets the key after that, also because the store has forgotten the grant, gets a token that is at least the time of its
/// own grant, and so a larger one. The clock of this process alone shows nothing: it runs on after the grant is gone.
///
/// [`Fencing::StoreTime`]: crate::backend::Fencing::StoreTime
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FenceSequence {
    /// The last token that the store has made for the grant: its time then.
    pub(super) first: FencingToken,
    /// When that one arrived, which is later than when the store made it.
    pub(super) arrived: Moment,
    /// The last number that was given.
    pub(super) last: FencingToken,
}

impl FenceSequence {
    /// The next number, if the store's clock had certainly passed it at `confirmed`: when the last request was sent that
    /// the store has answered with yes, and so has carried out later than that.
    fn next(self, confirmed: Moment) -> Option<Self> {
        let between = confirmed.remaining(self.arrived);
        // 1 % for clocks that run at different speeds, as it is taken off a lease.
        let passed = u64::try_from((between - between / 100).as_micros()).unwrap_or(u64::MAX);
        let last = self.last.get() + 1;
        (last < self.first.get().saturating_add(passed))
            .then_some(Self { last: FencingToken::new(last), ..self })
    }
}

impl Lease {
    /// The fencing token of this turn; asks the store once, unless it came with the grant or can be numbered here.
    pub(crate) async fn fence(&self) -> Result<FencingToken> {
        self.check()?;
        let made = match self.fence.get() {
            Some(made) => Ok(*made),
            // Two that ask at once both ask the store, and the first answer counts for both. Were one to wait for the other,
            // a future that nobody polls would keep all of this turn from the token.
            None => self.make_fence().await.map(|made| *self.fence.get_or_init(|| made)),
        };
        match made {
            Ok(sequence) => {
                // Should the turn have ended meanwhile, the next one did not know of this number and may have a smaller
                // one. Pairs with the fence in `as_turn`: one of the two sees what the other wrote.
                atomic::fence(Ordering::SeqCst);
                self.check()?;
                self.span.record("lock.fencing_token", sequence.last.get());
                Ok(sequence.last)
            }
            Err(error) => {
                if error.is_lost() {
                    self.lose(error.loss_reason().unwrap_or(LossReason::Taken));
                }
                Err(error.with_key(&self.claim.key))
            }
        }
    }

    /// The next number of this process where there is one, else a token of the store.
    async fn make_fence(&self) -> Result<FenceSequence> {
        let here = self.earlier.filter(|_| self.engine.capability.fencing == Fencing::StoreTime);
        if let Some(sequence) = here.and_then(|earlier| earlier.next(self.confirmed())) {
            self.claim.number_fence(sequence.last);
            return Ok(sequence);
        }
        let token = self.engine.store.fence(&self.claim).await?;
        Ok(self.counted_on(token, here))
    }

    /// From a token that the store has just made. Where turns before this one were numbered here, it is taken for the
    /// store's time alone, and the next number below it is given: so one question is enough for as many turns as
    /// microseconds have passed since the last one.
    fn counted_on(&self, token: FencingToken, earlier: Option<FenceSequence>) -> FenceSequence {
        let asked = FenceSequence { first: token, arrived: self.now(), last: token };
        let next = earlier
            .filter(|_| !self.claim.is_fence_ahead())
            .and_then(|earlier| FenceSequence { last: earlier.last, ..asked }.next(asked.arrived));
        if let Some(sequence) = next {
            self.claim.number_fence(sequence.last);
        }
        next.unwrap_or(asked)
    }

    /// The fencing token, if it is known; for a hold that takes this one's place.
    pub(crate) fn known_fence(&self) -> Option<FencingToken> {
        self.fence.get().map(|sequence| sequence.last)
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
    fn the_clock_that_shows_less_time_counts() {
        let start = Clock::Suspend.now();
        let first = FencingToken::new(1_000);
        let sequence = FenceSequence { first, arrived: start, last: first };
        let (mono, boot) = start.parts();
        assert_eq!(sequence.next(Moment::from_parts((mono, boot + 1_000_000))), None, "the machine slept");
        assert_eq!(sequence.next(Moment::from_parts((mono + 1_000_000, boot))), None);
    }
}
