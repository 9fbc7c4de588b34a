//! Releases the grant of a lease in the background.

use super::lease::Lease;
use crate::pending::{Certainty, ReleaseUnderWay};

impl Lease {
    /// Releases the grant in the background; see [`Cleanup::release_as`](crate::pending::Cleanup::release_as). `begun`
    /// is the record of the release, if the release has already begun.
    pub(crate) fn release_in_background(&self, begun: Option<ReleaseUnderWay>) {
        let (keep_until, until) = (self.keep_until(), self.store_until());
        let (cleanup, context) = (&self.engine.cleanup, self.recorder.release_context());
        cleanup.release_as(self.claim(), keep_until, Certainty::Granted, until, begun, context);
    }

    /// Releases the grant of a lost lease in the background, at the time when the lease would have ended at the store.
    /// This is needed for grants of a session, which do not expire.
    pub(super) fn release_when_forgotten(&self) {
        let (keep_until, context) = (self.keep_until(), self.recorder.release_context());
        self.engine.cleanup.release_later(self.claim(), keep_until, self.store_until(), context);
    }
}
