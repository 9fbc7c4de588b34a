//! The single grants of a request for several keys.

use crate::guard::LockGuard;

/// The single grants of a request for several keys. Dropping them releases them.
#[derive(Default)]
pub(super) struct PartialGrants(Vec<LockGuard>);

impl PartialGrants {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, guard: LockGuard) {
        self.0.push(guard);
    }

    /// Releases them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Ends them without a release: one grant for all keys has taken their place.
    pub(super) fn supersede(&mut self) {
        self.0.drain(..).for_each(LockGuard::supersede);
    }
}
