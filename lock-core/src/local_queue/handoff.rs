//! Defines [`Handoff`]: a grant on its way from one holder of this process to the next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::held_grant::HeldGrant;
use crate::backend::Claim;
use crate::clock::Moment;
use crate::expiry;
use crate::observe::ReleaseContext;
use crate::pending::{Certainty, Cleanup, ReleaseUnderWay};

/// A grant without a holder. Dropping this value releases the grant in the background. This happens, for example, in
/// the node of a waiter that has left the queue, or in the future of a cancelled waiter.
pub(crate) struct Handoff {
    grant: Option<Arc<HeldGrant>>,
    /// Set when it is certain that the grant will be released. While this value exists, the next acquisition of the key
    /// waits for the release.
    under_way: Option<ReleaseUnderWay>,
}

impl Handoff {
    pub(crate) fn new(grant: Arc<HeldGrant>) -> Self {
        Self { grant: Some(grant), under_way: None }
    }

    /// Records that a request for a lease of `ttl` is about to be sent.
    pub(crate) fn asked(&self, ttl: Duration) {
        let grant = self.grant();
        // A session keeps its grants until it ends, regardless of the requested ttl.
        if !grant.cleanup.has_session() {
            grant.may_last(expiry::forgotten(grant.cleanup.clock.now(), ttl));
        }
    }

    /// Records that the store granted a lease of `length`, counted from `sent`.
    pub(crate) fn leased(&self, sent: Moment, length: Duration) {
        let grant = self.grant();
        // The lease counts from `sent` and not from the answer, which may arrive much later.
        grant.may_last(expiry::forgotten(sent, length));
        grant.lasts(sent, expiry::held_until(grant.cleanup.capability.placement, sent, length));
    }

    pub(crate) fn grant(&self) -> &HeldGrant {
        self.grant.as_ref().expect("BUG: only what consumes the hand-off takes the grant")
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.grant().claim
    }

    /// Takes the grant out of this hand-off. The caller must then release the grant.
    pub(crate) fn accept(mut self) -> Arc<HeldGrant> {
        self.grant.take().expect("BUG: only what consumes the hand-off takes the grant")
    }

    /// Makes the next acquisition of the key by this process wait for the release. Call this under the same lock under
    /// which the grant is taken out of the queue. Otherwise another task could send a request in between.
    pub(crate) fn begin_release(&mut self) {
        let Cleanup { under_way, clock, .. } = &*self.grant().cleanup;
        let under_way = under_way.add(self.claim(), clock.now());
        self.under_way = Some(under_way);
    }

    /// Returns whether the manager is shutting down. In that case the grant must not be handed off.
    pub(super) fn is_too_late(&self) -> bool {
        self.grant().cleanup.is_hurrying()
    }
}

impl Drop for Handoff {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            let (until, begun) = (grant.store_until(), self.under_way.take());
            let context = ReleaseContext::default();
            grant.cleanup.release_as(&grant.claim, None, Certainty::Granted, until, begun, context);
        }
    }
}

impl fmt::Debug for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handoff").field("grant", &self.grant).finish_non_exhaustive()
    }
}
