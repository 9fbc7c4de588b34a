//! Defines the results of the loop's steps.

use super::step::Event;
use crate::backend::Held;
use crate::local_queue::Handoff;
use crate::pending::Granted;

/// The store's answer to a claim.
pub(super) enum Answer {
    Granted(Granted),
    Held(Held),
}

/// A grant that a waiter may turn into a guard.
pub(super) enum Won {
    /// The store has granted the claim.
    Store(Granted),
    /// A holder in this process has handed its grant off to this waiter.
    Handoff(Handoff),
}

/// The result of an action of the loop.
pub(super) enum Happened {
    Won(Won),
    Event(Event),
}

impl From<Event> for Happened {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}
