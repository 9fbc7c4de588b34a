//! The way of a grant from its last guard: back to the store, or on to the next waiter of this process.

use std::sync::Arc;

use crate::backend::{Queue, Released};
use crate::error::Result;
use crate::key::Key;
use crate::lease::Hold;
use crate::observe::ReleaseError;

/// A hold without guards, until the store has answered its release; dropped before, the background takes over.
pub(super) struct Releasing {
    hold: Arc<Hold>,
    /// The store was asked to free the key.
    asked: bool,
    answered: bool,
}

impl Releasing {
    /// For the last guard of `hold`, which has left it.
    pub(super) fn new(hold: Arc<Hold>) -> Self {
        Self { hold, asked: false, answered: false }
    }

    pub(super) fn key(&self) -> &Key {
        &self.hold.claim.key
    }

    /// Gives the grant to the next waiter of this process, if that is how it goes on.
    fn handed_off(&self) -> bool {
        let (hold, local_queue) = (&self.hold, &self.hold.engine.local_queue);
        hold.options.kind.queue() == Queue::Barging
            && local_queue.hand_off(&hold.claim.key, |ttl| hold.as_handoff(ttl))
    }

    pub(super) async fn release(mut self) -> Result<Released> {
        if self.handed_off() {
            self.answered = true;
            return Ok(Released::Released);
        }
        self.asked = true;
        let hold = &self.hold;
        let answer = hold.engine.release(&hold.claim, hold.keep_for()).await;
        match answer {
            Ok(released) => {
                self.answered = true;
                if released != Released::Released {
                    self.hold.record_release_failed(ReleaseError::NotOurs, None);
                }
                Ok(released)
            }
            Err(error) => {
                self.hold.record_release_failed(ReleaseError::Unanswered, Some(&error));
                Err(error.with_key(&self.hold.claim.key))
            }
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        let hold = &self.hold;
        let engine = &hold.engine;
        // A release that was sent frees the key, answered or not: from then on there is nothing to hand over.
        if !self.answered && (self.asked || !self.handed_off()) {
            engine.release_hold_in_background(hold);
        }
        engine.hold_ended();
    }
}
