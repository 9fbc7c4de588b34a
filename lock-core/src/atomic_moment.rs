//! Defines a moment that several threads move forward.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::Moment;

/// A moment that only moves forward.
///
/// Its two halves are read one after the other. Both only grow, so a torn read results in an earlier moment, never in a
/// later one. A deadline that is read too early is safe.
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

    /// Moves this moment forward to `to`. It never moves back.
    pub(crate) fn raise(&self, to: Moment) {
        let (mono, boot) = to.parts();
        self.mono.fetch_max(mono, Ordering::AcqRel);
        self.boot.fetch_max(boot, Ordering::AcqRel);
    }
}
