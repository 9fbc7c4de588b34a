//! A moment that several threads move forward.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::Moment;

/// A moment that only moves forward.
///
/// Its two halves are read one after the other. Because both only grow, a torn read is an earlier moment, never a later
/// one: a deadline that is read too early is safe.
#[derive(Debug)]
pub(crate) struct AtomicMoment {
    mono: AtomicI64,
    boot: AtomicI64,
}

impl AtomicMoment {
    pub(crate) fn new(moment: Moment) -> Self {
        let (mono, boot) = moment.parts();
        Self { mono: AtomicI64::new(mono), boot: AtomicI64::new(boot) }
    }

    pub(crate) fn get(&self) -> Moment {
        Moment::from_parts((self.mono.load(Ordering::Acquire), self.boot.load(Ordering::Acquire)))
    }

    /// Moves forward to `to`; never moves back.
    pub(crate) fn raise(&self, to: Moment) {
        let (mono, boot) = to.parts();
        self.mono.fetch_max(mono, Ordering::AcqRel);
        self.boot.fetch_max(boot, Ordering::AcqRel);
    }
}
