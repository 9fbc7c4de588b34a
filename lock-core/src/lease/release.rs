//! Giving the grant of a lease back in the background.

use super::lease::Lease;
use crate::pending::Certainty;

impl Lease {
    /// Releases the grant in the background. See [`Cleanup::release_as`](crate::pending::Cleanup::release_as).
    pub(crate) fn release_in_background(&self) {
        let context = || self.recorder.release_context();
        let (keep_until, until) = (self.keep_until(), self.store_until());
        self.engine.cleanup.release_as(&self.claim, keep_until, Certainty::Granted, until, context);
    }

    /// Releases the grant of a lost lease in the background, at the time at which the store would have forgotten a
    /// lease of its own. For a grant in a session, which forgets none.
    pub(super) fn release_when_forgotten(&self) {
        let (keep_until, context) = (self.keep_until(), self.recorder.release_context());
        self.engine.cleanup.release_later(&self.claim, keep_until, self.store_until(), context);
    }
}
