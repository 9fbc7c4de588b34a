//! The single grants of a request for several keys.

use crate::guard::Hold;

/// The single grants of a request for several keys. Dropping them releases them.
#[derive(Default)]
pub(super) struct PartialGrants(Vec<Hold>);

impl PartialGrants {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, hold: Hold) {
        self.0.push(hold);
    }

    /// Releases them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Ends them without a release: one grant for all keys has taken their place.
    pub(super) fn supersede(&mut self) {
        self.0.drain(..).for_each(Hold::supersede);
    }
}
