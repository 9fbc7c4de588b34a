//! The fencing token of a lease: from the store, or the next number of this process.

use std::sync::atomic::{self, Ordering};

use super::lease::Lease;
use crate::backend::{Fencing, FencingToken};
use crate::error::{LossReason, Result};
use crate::local_queue::FenceSequence;

impl Lease {
    /// Returns the fencing token. Asks the store once, unless the token came with the grant or can be numbered here.
    pub(crate) async fn fence(&self) -> Result<FencingToken> {
        self.check()?;
        let known = *self.fence.lock();
        let made = match known {
            Some(made) => Ok(made),
            // Two callers that ask at once both ask the store, and the first answer counts for both. If one waited for
            // the other, a future that nobody polls would keep the token from all callers.
            None => self.make_fence().await.map(|made| *self.fence.lock().get_or_insert(made)),
        };
        match made {
            Ok(sequence) => {
                // If the lease has ended meanwhile, the next holder did not know of this number and may have a smaller
                // one. Pairs with the fence in `as_handoff`: one of the two sees what the other wrote.
                atomic::fence(Ordering::SeqCst);
                self.check()?;
                self.span.record("lock.fencing_token", sequence.token().get());
                Ok(sequence.token())
            }
            Err(error) => {
                if error.is_lost() {
                    self.lose(error.loss_reason().unwrap_or(LossReason::Taken));
                }
                Err(error.with_key(&self.claim.key))
            }
        }
    }

    /// Returns the next number of this process where there is one, else a token of the store.
    async fn make_fence(&self) -> Result<FenceSequence> {
        let here = self.earlier.filter(|_| self.engine.capability.fencing == Fencing::StoreTime);
        if let Some(sequence) = here.and_then(|earlier| earlier.next(self.confirmed())) {
            // Noted before the caller sees it: the next renewal and the release report it to the store, so that a token
            // of the store made after that is larger.
            self.claim.number_fence(sequence.token());
            return Ok(sequence);
        }
        let token = self.engine.store.fence(&self.claim).await?;
        Ok(self.counted_on(FenceSequence::new(token, self.now()), here))
    }

    /// Goes on numbering below a token that the store has just made, where earlier holders of the grant were numbered
    /// here. One question is then enough for as many holders as microseconds have passed since the last one.
    fn counted_on(&self, made: FenceSequence, earlier: Option<FenceSequence>) -> FenceSequence {
        let next =
            earlier.filter(|_| !self.claim.is_fence_ahead()).and_then(|earlier| made.next_after(earlier));
        if let Some(sequence) = next {
            self.claim.number_fence(sequence.token());
        }
        next.unwrap_or(made)
    }

    /// Returns the fencing token if it is known, without asking the store.
    pub(crate) fn known_fence(&self) -> Option<FencingToken> {
        self.fence.lock().map(|sequence| sequence.token())
    }
}
