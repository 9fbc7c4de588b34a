//! Defines the sorts of locks on which the cases of a mutex run.

use super::Case;
use crate::backend::{Capability, Mode, Queue};

/// A sort of lock on which the cases of a mutex run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Variant {
    /// An exclusive, barging claim, which every backend supports.
    Plain,
    /// An exclusive claim in order of arrival: the writer of a read-write lock, and the fair lock.
    Write,
    /// A semaphore with one permit, in order of arrival.
    Semaphore,
}

impl Variant {
    pub(super) const ALL: [Self; 3] = [Self::Plain, Self::Write, Self::Semaphore];

    /// Returns the mode and the queue of the claims in this variant.
    pub(super) fn claims(self) -> (Mode, Queue) {
        match self {
            Self::Plain => (Mode::Exclusive, Queue::Barging),
            Self::Write => (Mode::Exclusive, Queue::Fifo),
            Self::Semaphore => (Mode::Permit { of: 1 }, Queue::Fifo),
        }
    }

    pub(super) fn is_possible(self, can: &Capability) -> bool {
        match self {
            Self::Plain => true,
            Self::Write => can.waiting.in_order(),
            Self::Semaphore => can.waiting.in_order() && can.permits,
        }
    }

    /// Returns the case in this variant, with the variant in its name.
    pub(super) fn apply_to(self, case: Case) -> Case {
        let name = match self {
            Self::Plain => return case,
            Self::Write => format!("{}@write", case.name),
            Self::Semaphore => format!("{}@semaphore", case.name),
        };
        Case { name: Box::leak(name.into_boxed_str()), variant: self, ..case }
    }
}
