//! Provides the fencing token of a lease, either from the store or as the next number of this process.
//!
//! A number that the process assigns stays below the value that the store has confirmed. The clock of the process alone
//! cannot be the bound, because it continues after a loss. If the store loses its data and grants the key to another
//! process, the token of that process could be smaller.

use std::sync::atomic::{self, Ordering};

use super::lease::Lease;
use crate::backend::{Claim, Fencing, FencingToken};
use crate::error::{LossReason, Result};
use crate::local_queue::FenceSequence;

impl Lease {
    /// Returns the fencing token. If it neither came with the grant nor can be numbered here, sends one request to the
    /// store.
    pub(crate) async fn fence(&self) -> Result<FencingToken> {
        self.check()?;
        let made = match self.fence.get() {
            Some(made) => Ok(*made),
            // If two callers request the token at the same time, both send a request, and the first answer counts for
            // both. If one caller waited for the other, a future that is not polled would block all callers.
            None => self.make_fence().await.map(|made| *self.fence.get_or_init(|| made)),
        };
        match made {
            Ok(sequence) => {
                // If the lease has ended in the meantime, the next holder does not know of this number and may have a
                // smaller one. This fence pairs with the fence in `as_handoff`: one of the two sides sees what the
                // other wrote.
                atomic::fence(Ordering::SeqCst);
                self.check()?;
                self.span.record("lock.fencing_token", sequence.token().get());
                Ok(sequence.token())
            }
            Err(error) => {
                if error.is_lost() {
                    self.lose(error.loss_reason().unwrap_or(LossReason::Taken));
                }
                Err(error.with_key(&self.claim().key))
            }
        }
    }

    /// Returns the next number of this process if there is one. Otherwise requests a token from the store.
    async fn make_fence(&self) -> Result<FenceSequence> {
        let here = self.grant.earlier().filter(|_| self.engine.capability.fencing == Fencing::StoreTime);
        if let Some(sequence) = here.and_then(|earlier| earlier.next(self.confirmed())) {
            // The number is recorded before the caller sees it. The next renewal and the release report it to the
            // store, so that later tokens of the store are larger.
            self.claim().number_fence(sequence.token());
            return Ok(sequence);
        }
        let token = self.ask_fence().await?;
        Ok(self.counted_on(FenceSequence::new(token, self.now()), here))
    }

    async fn ask_fence(&self) -> Result<FencingToken> {
        let store = &self.engine.store;
        if self.handoffs == self.claim().handoffs {
            return store.fence(self.claim()).await;
        }
        // The holders of a grant may share its claim, but each has its own token. A store may read the number of
        // hand-offs again after it has answered, so this claim must be a copy with this holder's number.
        let copy = CopyOfClaim { of: self.claim(), copy: self.own_claim() };
        store.fence(&copy.copy).await
    }

    /// If earlier holders of the grant were numbered here, continues their numbers below a token that the store has
    /// just made. One request then serves as many holders as microseconds have passed since the last request.
    fn counted_on(&self, made: FenceSequence, earlier: Option<FenceSequence>) -> FenceSequence {
        let next =
            earlier.filter(|_| !self.claim().is_fence_ahead()).and_then(|earlier| made.next_after(earlier));
        if let Some(sequence) = next {
            self.claim().number_fence(sequence.token());
        }
        next.unwrap_or(made)
    }

    /// Returns the fencing token if it is known, without a request to the store.
    pub(crate) fn known_fence(&self) -> Option<FencingToken> {
        self.fence.get().map(|sequence| sequence.token())
    }
}

/// A copy of a claim for one request. The marks that the store sets on the copy are transferred to the claim, even if
/// the request is dropped.
struct CopyOfClaim<'a> {
    of: &'a Claim,
    copy: Claim,
}

impl Drop for CopyOfClaim<'_> {
    fn drop(&mut self) {
        self.of.note_fence_of(&self.copy);
    }
}
