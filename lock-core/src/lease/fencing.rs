//! The fencing token of a lease: from the store, or the next number of this process.
//!
//! A token that a process numbers itself stays below what the store has confirmed. The process's clock alone cannot be
//! the bound: it runs on after the store has lost its data and granted the key to another process, whose token would
//! then be the smaller one.

use std::sync::atomic::{self, Ordering};

use super::lease::Lease;
use crate::backend::{Claim, Fencing, FencingToken};
use crate::error::{LossReason, Result};
use crate::local_queue::FenceSequence;

impl Lease {
    /// Returns the fencing token. Asks the store once, unless the token came with the grant or can be numbered here.
    pub(crate) async fn fence(&self) -> Result<FencingToken> {
        self.check()?;
        let made = match self.fence.get() {
            Some(made) => Ok(*made),
            // Two callers that ask at once both ask the store, and the first answer counts for both. If one waited for
            // the other, a future that is not polled would keep the token from all callers.
            None => self.make_fence().await.map(|made| *self.fence.get_or_init(|| made)),
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
                Err(error.with_key(&self.claim().key))
            }
        }
    }

    /// Returns the next number of this process if there is one, else a token of the store.
    async fn make_fence(&self) -> Result<FenceSequence> {
        let here = self.grant.earlier().filter(|_| self.engine.capability.fencing == Fencing::StoreTime);
        if let Some(sequence) = here.and_then(|earlier| earlier.next(self.confirmed())) {
            // The number is noted before the caller sees it: the next renewal and the release report it to the store,
            // so that later tokens of the store are larger.
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
        // The holders of a grant may share its claim, and each has its own token. A store may read the number of
        // hand-offs again when it has answered, so this must be a copy with this holder's number.
        let copy = CopyOfClaim { of: self.claim(), copy: self.own_claim() };
        store.fence(&copy.copy).await
    }

    /// Continues the numbers of this process below a token that the store has just made, if earlier holders of the
    /// grant were numbered here. One request then serves as many holders as microseconds have passed since the last
    /// one.
    fn counted_on(&self, made: FenceSequence, earlier: Option<FenceSequence>) -> FenceSequence {
        let next =
            earlier.filter(|_| !self.claim().is_fence_ahead()).and_then(|earlier| made.next_after(earlier));
        if let Some(sequence) = next {
            self.claim().number_fence(sequence.token());
        }
        next.unwrap_or(made)
    }

    /// Returns the fencing token if it is known, without asking the store.
    pub(crate) fn known_fence(&self) -> Option<FencingToken> {
        self.fence.get().map(|sequence| sequence.token())
    }
}

/// A copy of a claim for one request. The marks that the store sets on it count for the claim, even if the request is
/// dropped.
struct CopyOfClaim<'a> {
    of: &'a Claim,
    copy: Claim,
}

impl Drop for CopyOfClaim<'_> {
    fn drop(&mut self) {
        self.of.note_fence_of(&self.copy);
    }
}
