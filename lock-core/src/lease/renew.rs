//! Renewing a lease at once, outside of the loop.

use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use super::lease::Lease;
use crate::backend::{Claim, Renewal};
use crate::clock::Moment;
use crate::error::{LockError, LossReason, Result};

/// The form of a grant that a request names. A request that leaves before a [downgrade](Claim::mark_shared) names the
/// exclusive grant, and one that arrives behind that does not find it: this tells nothing of who has the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    shared: bool,
}

impl Form {
    pub(super) fn of(claim: &Claim) -> Self {
        Self { shared: claim.may_be_shared() }
    }

    /// Returns whether requests of the claim name another form by now.
    pub(super) fn is_former(self, claim: &Claim) -> bool {
        self.shared != claim.may_be_shared()
    }
}

impl Lease {
    /// Renews at once, and asks for leases of `ttl` from now on. Returns when the request was sent, and the lease that
    /// it brought.
    pub(crate) async fn renew_now(&self, ttl: Duration) -> Result<(Moment, Duration)> {
        // Before the await: a future that is dropped there leaves a request that may yet extend the lease.
        self.asked(ttl);
        // Pairs with the fence in `as_handoff`. A grant that was handed off meanwhile is not renewed here: its next
        // holder knows nothing of the longer lease. One that is handed off from now on passes on what was just asked.
        atomic::fence(Ordering::SeqCst);
        self.check_ended()?;
        let named = Form::of(&self.claim);
        let mut answer = self.engine.store.renew_one(&self.claim, ttl).await;
        if matches!(answer, Renewal::NotOwned) && named.is_former(&self.claim) {
            answer = self.engine.store.renew_one(&self.claim, ttl).await;
        }
        self.record_renewal(&answer);
        let (sent, length) = self.accept(answer)?;
        // Only after a yes, because otherwise the old lease continues. Before `renewed`, which counts no more than this
        // where the lease ends by itself.
        self.set_ttl(ttl);
        self.renewed(sent, length);
        Ok((sent, length))
    }

    /// Returns when the request was sent that the store has answered with yes, and the lease that it brought. A lease
    /// that is another's is lost from now on.
    pub(crate) fn accept(&self, answer: Renewal) -> Result<(Moment, Duration)> {
        match answer {
            Renewal::Renewed { sent, lease, .. } => {
                // The answer may have come after the old lease was over: then the lock is lost, and stays so.
                self.check()?;
                Ok((sent, lease))
            }
            Renewal::NotOwned => {
                self.lose(LossReason::Taken);
                self.check()?;
                Err(LockError::lost(&self.claim.key, LossReason::Taken))
            }
            Renewal::Unknown(error) => Err(error),
        }
    }
}
