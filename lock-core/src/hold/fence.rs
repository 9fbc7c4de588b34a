//! The fencing token of a hold: from the store, or counted on from the turn before.

use std::sync::atomic::{self, Ordering};

use super::Hold;
use crate::backend::FencingToken;
use crate::clock::Moment;
use crate::error::{LockError, LossReason, Result};
use crate::observe::Op;

/// What the fencing tokens of the turns on one grant count on from.
///
/// Where a token is at least the store's time in microseconds ([`Capability::fence_is_time`]), a process numbers its own
/// turns: each the next number, and never further from the first than microseconds have passed since that one arrived.
/// So no number is ahead of the store's clock, and whoever gets the key after a crash gets a larger one.
///
/// [`Capability::fence_is_time`]: crate::backend::Capability::fence_is_time
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numbering {
    pub(super) first: FencingToken,
    /// When the first arrived, which is later than when the store made it.
    pub(super) arrived: Moment,
    pub(super) last: FencingToken,
}

impl Numbering {
    /// The next number, if the store's clock has certainly passed it.
    fn next(self, now: Moment) -> Option<Self> {
        let passed = u64::try_from(now.since(self.arrived).as_micros()).unwrap_or(u64::MAX);
        let last = self.last.get() + 1;
        (last - self.first.get() <= passed).then_some(Self { last: FencingToken::new(last), ..self })
    }
}

impl Hold {
    /// The fencing token of this turn; asks the store once, unless it came with the grant or can be numbered here.
    pub(crate) async fn fence(&self) -> Result<FencingToken> {
        self.check()?;
        let made = self.fence.get_or_try_init(|| async {
            let here = self.earlier.filter(|_| self.engine.capability.fence_is_time);
            if let Some(numbering) = here.and_then(|earlier| earlier.next(self.now())) {
                self.claim.number_fence(numbering.last);
                return Ok(numbering);
            }
            let call = self.engine.backend.fence_dyn(&self.claim);
            let token = self.engine.observer.meters.timed(Op::Fence, call).await?;
            Ok(Numbering { first: token, arrived: self.now(), last: token })
        });
        match made.await {
            Ok(numbering) => {
                // Should the turn have ended meanwhile, the next one did not know of this number and may have a smaller
                // one. Pairs with the fence in `as_turn`: one of the two sees what the other wrote.
                atomic::fence(Ordering::SeqCst);
                self.check()?;
                self.span.record("lock.fencing_token", numbering.last.get());
                Ok(numbering.last)
            }
            Err(error) => {
                let error: LockError = error;
                if error.is_lost() {
                    self.lose(error.loss_reason().unwrap_or(LossReason::Taken));
                }
                Err(error.with_key(&self.claim.key))
            }
        }
    }

    /// The fencing token, if it is known; for a hold that takes this one's place.
    pub(crate) fn known_fence(&self) -> Option<FencingToken> {
        self.fence.get().map(|numbering| numbering.last)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_process_numbers_its_turns_no_faster_than_time_passes() {
        let start = Clock::Suspend.now();
        let at = |us| start.plus(Duration::from_micros(us));
        let first = FencingToken::new(1_000);
        let numbering = Numbering { first, arrived: start, last: first };
        assert_eq!(numbering.next(at(0)), None, "the store's clock may show the first number yet");
        let one = numbering.next(at(1)).expect("a microsecond has passed");
        assert_eq!((one.last.get(), one.first, one.arrived), (1_001, first, start));
        assert_eq!(one.next(at(1)), None);
        assert_eq!(one.next(at(50)).expect("time has passed").last.get(), 1_002, "the next, not the time");
    }
}
