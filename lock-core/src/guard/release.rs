//! The way of a grant from its last guard: back to the store, or on to the next waiter of this process.

use std::sync::Arc;

use crate::backend::{Queue, Released};
use crate::error::Result;
use crate::key::Key;
use crate::lease::Lease;
use crate::observe::ReleaseError;

/// A hold without guards, until the store has answered its release; dropped before, the background takes over.
pub(super) struct Releasing {
    lease: Arc<Lease>,
    /// The store was asked to free the key.
    asked: bool,
    answered: bool,
}

impl Releasing {
    /// For the last guard of `hold`, which has left it.
    pub(super) fn new(lease: Arc<Lease>) -> Self {
        Self { lease, asked: false, answered: false }
    }

    pub(super) fn key(&self) -> &Key {
        &self.lease.claim.key
    }

    /// Gives the grant to the next waiter of this process, if that is how it goes on.
    fn handed_off(&self) -> bool {
        let (lease, local_queue) = (&self.lease, &self.lease.engine.local_queue);
        lease.options.kind.queue() == Queue::Barging
            && local_queue.hand_off(&lease.claim.key, |ttl| lease.as_handoff(ttl))
    }

    pub(super) async fn release(mut self) -> Result<Released> {
        if self.handed_off() {
            self.answered = true;
            return Ok(Released::Released);
        }
        self.asked = true;
        let lease = &self.lease;
        let answer = lease.engine.release(&lease.claim, lease.keep_for()).await;
        match answer {
            Ok(released) => {
                self.answered = true;
                if released != Released::Released {
                    self.lease.record_release_failed(ReleaseError::NotOurs, None);
                }
                Ok(released)
            }
            Err(error) => {
                self.lease.record_release_failed(ReleaseError::Unanswered, Some(&error));
                Err(error.with_key(&self.lease.claim.key))
            }
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        let lease = &self.lease;
        let engine = &lease.engine;
        // A release that was sent frees the key, answered or not: from then on there is nothing to hand over.
        if !self.answered && (self.asked || !self.handed_off()) {
            lease.release_in_background();
        }
        engine.lease_ended();
    }
}
