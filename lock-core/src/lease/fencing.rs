//! Provides the fencing token of a lease. The token either comes from the store, or is the next number of this process.
//!
//! [`FenceSequence`] says which numbers a process may assign.

use std::sync::atomic::{self, Ordering};

use super::lease::Lease;
use crate::backend::{Claim, Fencing, FencingToken};
use crate::error::{LossReason, Result};
use crate::local_queue::FenceSequence;

impl Lease {
    /// Returns the fencing token. If the grant has no token and this process cannot assign one, sends one request to
    /// the store.
    pub(crate) async fn fence(&self) -> Result<FencingToken> {
        self.check()?;
        let made = match self.fence.get() {
            Some(made) => Ok(*made),
            // If two callers request the token at the same time, both send a request, and the first answer counts for
            // both. Neither caller waits for the other, because a future that is not polled would then block all
            // callers.
            None => self.make_fence().await.map(|made| *self.fence.get_or_init(|| made)),
        };
        match made {
            Ok(sequence) => {
                // If the lease has ended in the meantime, the next holder may not know this number, and may get a
                // smaller number. This memory fence pairs with the one in `as_handoff`: at least one of the two sides
                // sees the value that the other side wrote.
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

    /// Returns the next number of this process as a token. If this process has no number left, requests a token from
    /// the store.
    async fn make_fence(&self) -> Result<FenceSequence> {
        let here = self.grant.earlier().filter(|_| self.engine.capability.fencing == Fencing::StoreTime);
        if let Some(sequence) = here.and_then(|earlier| earlier.next(self.confirmed())) {
            // The number is recorded before the caller gets it. The next renewal and the release report the number to
            // the store, so that later tokens of the store are larger.
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
        // The holders of a grant may share its claim, but each holder has its own token. During the request, the store
        // may read the claim's number of hand-offs more than once. So this request uses a copy of the claim with this
        // holder's number.
        let copy = CopyOfClaim { of: self.claim(), copy: self.own_claim() };
        store.fence(&copy.copy).await
    }

    /// Continues the numbers of earlier holders of this grant, if this process has assigned them. The new number is
    /// smaller than `made`, the token that the store has just made. So one request provides numbers for as many holders
    /// as microseconds have passed since the last request.
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

/// A copy of a claim for one request. When this value is dropped, `note_fence_of` records on the claim what the store
/// has recorded on the copy. This happens even if the request is dropped.
struct CopyOfClaim<'a> {
    of: &'a Claim,
    copy: Claim,
}

impl Drop for CopyOfClaim<'_> {
    fn drop(&mut self) {
        self.of.note_fence_of(&self.copy);
    }
}
