//! The release by the last guard: to the store, or to the next waiter of this process.

use std::sync::Arc;

use crate::backend::{Queue, Released};
use crate::error::Result;
use crate::key::Key;
use crate::lease::Lease;
use crate::observe::ReleaseError;

/// A lease without guards, until the store has answered its release.
///
/// It exists before the request is sent, so that a future which is dropped at any await point leaves the release to the
/// background. A release that was sent frees the key, answered or not, so from then on there is nothing to hand off.
pub(super) struct Releasing {
    lease: Arc<Lease>,
    /// The store was asked to free the key.
    asked: bool,
    answered: bool,
}

impl Releasing {
    /// For the last guard of `lease`, which has left it.
    pub(super) fn new(lease: Arc<Lease>) -> Self {
        Self { lease, asked: false, answered: false }
    }

    pub(super) fn key(&self) -> &Key {
        &self.lease.claim.key
    }

    /// Hands the grant off to the next waiter of this process. Returns whether there is one that may have it.
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
        // Before the await. From the first byte on, the store may free the key, and grant it to another.
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
        // Never handed off once the store was asked: it may have granted the key to another process, and both would
        // hold it.
        if !self.answered && (self.asked || !self.handed_off()) {
            lease.release_in_background();
        }
        // After the release counts as pending. A shutdown waits until nothing is held, and then for the pending
        // releases: in between it would find neither.
        engine.lease_ended();
    }
}
