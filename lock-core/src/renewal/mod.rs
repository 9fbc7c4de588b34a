//! Keeping grants alive: written once, for every backend.
//!
//! One [`Keeper`] holds a queue of grants ordered by when they need a look: a renewal is due at a third of the lease,
//! a loss at its deadline. Everything that is due at about the same time leaves as one batch. Over a remote store the
//! keeper runs on a thread of its own with a current-thread runtime, so that a body that blocks every worker of the
//! caller's runtime keeps its lock; over the memory store it runs on the caller's runtime, so that a paused clock
//! drives it. Releases of dropped guards and of cancelled acquires go to the same place (`release`).

mod keeper;
mod place;
mod queue;
mod release;

pub(crate) use keeper::Keeper;
pub(crate) use place::Keepers;
pub(crate) use release::{Certainty, Unwanted};
