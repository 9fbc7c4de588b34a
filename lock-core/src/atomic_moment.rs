//! Defines a moment that several threads can move forward.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::Moment;

/// A moment that only moves forward.
///
/// A read loads the readings of the two clocks one after the other, so it may mix an old and a new reading. Both
/// readings only grow, so such a mixed moment is never later than the stored moment. For a deadline, an earlier moment
/// is safe.
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

    /// Moves this moment forward to `to`, if `to` is later.
    pub(crate) fn raise(&self, to: Moment) {
        let (mono, boot) = to.parts();
        self.mono.fetch_max(mono, Ordering::AcqRel);
        self.boot.fetch_max(boot, Ordering::AcqRel);
    }
}
