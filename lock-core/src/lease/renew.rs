//! Renewing a lease at once, outside of the loop.

use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use super::lease::Lease;
use crate::backend::{Claim, Renew, Renewal};
use crate::clock::Moment;
use crate::error::{LockError, LossReason, Result};

/// The form of a grant that a request names. A request that leaves before a [downgrade](Claim::mark_shared) names the
/// exclusive grant. If it arrives after the downgrade, it finds no such grant, although this owner still has the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    shared: bool,
}

impl Form {
    pub(super) fn new(claim: &Claim) -> Self {
        Self { shared: claim.may_be_shared() }
    }

    /// Returns whether requests of the claim now name the other form.
    pub(super) fn is_former(self, claim: &Claim) -> bool {
        self.shared != claim.may_be_shared()
    }
}

impl Lease {
    /// Renews at once, and requests leases of `ttl` from now on. Returns when the request was sent, and the granted
    /// lease.
    pub(crate) async fn renew_now(&self, ttl: Duration) -> Result<(Moment, Duration)> {
        // The request counts for the grant, even if it was handed off by now.
        self.check_ended()?;
        // This comes before the await: the request of a future that is dropped there may still extend the lease.
        self.asked(ttl);
        // Pairs with the fence in `as_handoff`. A grant that was handed off meanwhile is not renewed here: its next
        // holder knows nothing of the longer lease. A grant that is handed off from now on passes on the requested
        // lease.
        atomic::fence(Ordering::SeqCst);
        self.check_ended()?;
        let named = Form::new(self.claim());
        let mut answer = self.engine.store.renew_one(self.claim(), ttl).await;
        if matches!(answer, Renewal::NotOwned) && named.is_former(self.claim()) {
            answer = self.engine.store.renew_one(self.claim(), ttl).await;
        }
        self.take_answer(answer, ttl)
    }

    /// Renews leases of one manager with one request, as [`renew_now`](Self::renew_now). Returns whether all were renewed.
    pub(crate) async fn renew_together(leases: &[&Self], ttl: Duration) -> bool {
        let Some(first) = leases.first() else { return true };
        let live = leases.iter().filter(|lease| lease.check_ended().is_ok());
        live.for_each(|lease| lease.asked(ttl));
        atomic::fence(Ordering::SeqCst);
        let live: Vec<&Self> = leases.iter().copied().filter(|lease| lease.check_ended().is_ok()).collect();
        let batch: Vec<_> = live.iter().map(|lease| Renew { claim: lease.claim(), ttl }).collect();
        let answers = first.engine.store.renew(&batch).await;
        let renewed =
            live.iter().zip(answers).filter_map(|(lease, answer)| lease.take_answer(answer, ttl).ok());
        renewed.count() == leases.len()
    }

    /// Notes the answer to a request for a lease of `ttl`.
    fn take_answer(&self, answer: Renewal, ttl: Duration) -> Result<(Moment, Duration)> {
        self.record_renewal(&answer);
        let (sent, length) = self.accept(answer)?;
        // The ttl changes only after a yes, because otherwise the old lease continues. It changes before `renewed`,
        // which counts at most this ttl for a lease without renewals.
        self.set_ttl(ttl);
        self.renewed(sent, length);
        Ok((sent, length))
    }

    /// Returns when the request was sent that the store has answered with yes, and the granted lease. A lease that
    /// belongs to another owner is lost from now on.
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
                Err(LockError::lost(&self.claim().key, LossReason::Taken))
            }
            Renewal::Unknown(error) => Err(error),
        }
    }
}
