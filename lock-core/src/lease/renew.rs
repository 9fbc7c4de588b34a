//! Renews a lease at once, outside of the renewal loop.

use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use super::lease::Lease;
use crate::backend::{Claim, Renew, Renewal};
use crate::clock::Moment;
use crate::error::{LockError, LossReason, Result};

/// The form of a grant that a request names: exclusive or shared. A request that is sent before a
/// [downgrade](Claim::mark_shared) names the exclusive grant. If this request arrives after the downgrade, the store
/// finds no such grant, although this owner still has the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    shared: bool,
}

impl Form {
    pub(super) fn new(claim: &Claim) -> Self {
        Self { shared: claim.may_be_shared() }
    }

    /// Returns whether requests of the claim now name another form.
    pub(super) fn is_former(self, claim: &Claim) -> bool {
        self.shared != claim.may_be_shared()
    }
}

impl Lease {
    /// Renews the lease at once, and requests leases of `ttl` from now on. Returns when the request was sent, and the
    /// granted lease.
    pub(crate) async fn renew_now(&self, ttl: Duration) -> Result<(Moment, Duration)> {
        // Without this check, the request would be recorded for the grant even if the grant has been handed off.
        self.check_ended()?;
        // The requested lease is recorded before the await. If the future is dropped there, its request may still
        // extend the lease.
        self.asked(ttl);
        // This fence pairs with the fence in `as_handoff`. A grant that was already handed off is not renewed here,
        // because its next holder does not know of the longer lease. A grant that is handed off from now on passes the
        // requested lease on.
        atomic::fence(Ordering::SeqCst);
        self.check_ended()?;
        let named = Form::new(self.claim());
        let mut answer = self.engine.store.renew_one(self.claim(), ttl).await;
        if matches!(answer, Renewal::NotOwned) && named.is_former(self.claim()) {
            answer = self.engine.store.renew_one(self.claim(), ttl).await;
        }
        self.take_answer(answer, ttl)
    }

    /// Renews leases of one manager by one request, like [`renew_now`](Self::renew_now). Returns whether all were
    /// renewed.
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

    /// Processes the answer to a request for a lease of `ttl`.
    fn take_answer(&self, answer: Renewal, ttl: Duration) -> Result<(Moment, Duration)> {
        self.record_renewal(&answer);
        let (sent, length) = self.accept(answer)?;
        // The ttl changes only after a success, because the old lease continues otherwise. It changes before `renewed`,
        // which limits a lease without renewals to this ttl.
        self.set_ttl(ttl);
        self.renewed(sent, length);
        Ok((sent, length))
    }

    /// Returns when the successful request was sent, and the granted lease. If the store says that the grant belongs to
    /// another owner, marks the lease as lost.
    pub(crate) fn accept(&self, answer: Renewal) -> Result<(Moment, Duration)> {
        match answer {
            Renewal::Renewed { sent, lease, .. } => {
                // The answer may have arrived after the old lease ended. In that case the lock is lost, and stays lost.
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
