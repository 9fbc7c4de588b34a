//! A grant on its way from one holder of this process to the next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::fence_sequence::FenceSequence;
use crate::backend::Claim;
use crate::clock::Moment;
use crate::expiry;
use crate::observe::ReleaseContext;
use crate::pending::{Certainty, Cleanup, ReleaseUnderWay};

/// What a holder knows of its grant.
#[derive(Debug)]
pub(crate) struct HandoffLease {
    pub(crate) claim: Claim,
    /// Until when the grant is certainly held.
    pub(crate) deadline: Moment,
    /// Until when the store may have it.
    pub(crate) store_until: Moment,
    /// When the last request was sent that the store has answered with yes.
    pub(crate) confirmed: Moment,
    /// The sequence that the next holder's fencing token goes on with.
    pub(crate) sequence: Option<FenceSequence>,
    /// What keeps the next acquisition of the key waiting, once the grant is certain to be released.
    pub(crate) under_way: Option<ReleaseUnderWay>,
}

/// A grant without a holder. Dropping it releases the grant in the background: it may be dropped in the node of a
/// waiter that left, or in the future of one that was cancelled.
pub(crate) struct Handoff {
    cleanup: Arc<Cleanup>,
    lease: Option<Box<HandoffLease>>,
}

impl Handoff {
    pub(crate) fn new(cleanup: Arc<Cleanup>, lease: Box<HandoffLease>) -> Self {
        Self { cleanup, lease: Some(lease) }
    }

    /// Notes that a request for a lease of `ttl` is about to be sent.
    pub(crate) fn asked(&mut self, ttl: Duration) {
        // A session keeps its grants for as long as it lives, whatever is asked for.
        if self.cleanup.has_session() {
            return;
        }
        let now = self.cleanup.clock.now();
        if let Some(lease) = self.lease.as_deref_mut() {
            lease.store_until = lease.store_until.later(expiry::forgotten(now, ttl), now);
        }
    }

    /// Notes that the store promised `length` from `sent` on.
    pub(crate) fn leased(&mut self, sent: Moment, length: Duration) {
        // Counted from `sent`, as in a lease: the answer may have been under way for long.
        let until = expiry::held_until(self.cleanup.capability.placement, sent, length);
        if let Some(lease) = self.lease.as_deref_mut() {
            lease.store_until = lease.store_until.later(expiry::forgotten(sent, length), sent);
            lease.deadline = lease.deadline.later(until, sent);
            lease.confirmed = sent;
        }
    }

    pub(crate) fn lease(&self) -> &HandoffLease {
        self.lease.as_deref().expect("BUG: only what consumes the hand-off takes the lease")
    }

    /// Takes the lease out. From now on the caller releases it.
    pub(crate) fn accept(mut self) -> Box<HandoffLease> {
        self.lease.take().expect("BUG: only what consumes the hand-off takes the lease")
    }

    /// Has the next acquisition of the key by this process wait for the release, or it could be refused because of that.
    /// For a grant that is taken out of the queue to be dropped: in the same step, or somebody could ask in between.
    pub(super) fn begin_release(&mut self) {
        let now = self.cleanup.clock.now();
        if let Some(lease) = self.lease.as_deref_mut() {
            lease.under_way = Some(self.cleanup.under_way.add(&lease.claim, now));
        }
    }

    /// Returns whether its lease is over.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.lease().deadline.is_past(now)
    }

    /// Returns whether the manager ends, so that nobody may get it any more.
    pub(super) fn is_too_late(&self) -> bool {
        self.cleanup.is_hurrying()
    }
}

impl Drop for Handoff {
    fn drop(&mut self) {
        if let Some(mut lease) = self.lease.take() {
            let begun = lease.under_way.take();
            let (cleanup, claim) = (&self.cleanup, &lease.claim);
            // See `begin_release`.
            let under_way = || begun.or_else(|| Some(cleanup.under_way.add(claim, cleanup.clock.now())));
            let context = ReleaseContext::default;
            cleanup.release_as(claim, None, Certainty::Granted, lease.store_until, under_way, context);
        }
    }
}

impl fmt::Debug for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handoff").field("lease", &self.lease).finish_non_exhaustive()
    }
}
