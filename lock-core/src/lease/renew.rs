//! Renews a lease at once, outside of the renewal loop.

use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use super::lease::Lease;
use crate::backend::{Renew, Renewal};
use crate::clock::Moment;
use crate::error::{LockError, LossReason, Result};

impl Lease {
    /// Renews the lease at once. After a success, later renewals request `ttl` too. Returns the time at which the
    /// request was sent, and the length of the granted lease.
    pub(crate) async fn renew_now(&self, ttl: Duration) -> Result<(Moment, Duration)> {
        // This check comes first, because `asked` must not change a grant that was already handed off.
        self.check_ended()?;
        // The requested lease is recorded before the await. If the future is dropped during the await, its request may
        // still extend the lease.
        self.asked(ttl);
        // This memory fence pairs with the one in `as_handoff`. If the grant was already handed off, it is not renewed
        // here, because its next holder does not know of the longer lease. If the grant is handed off later, the
        // requested lease is part of the hand-off.
        atomic::fence(Ordering::SeqCst);
        self.check_ended()?;
        let shared = self.claim().may_be_shared();
        let mut answer = self.engine.store.renew_one(self.claim(), ttl).await;
        // If a [downgrade](Claim::mark_shared) happened meanwhile, the renewal named the exclusive grant. The store did
        // not find that grant, although this owner still has the lock.
        if matches!(answer, Renewal::NotOwned) && shared != self.claim().may_be_shared() {
            answer = self.engine.store.renew_one(self.claim(), ttl).await;
        }
        self.take_answer(answer, ttl)
    }

    /// Renews several leases of one manager with one call of the store, like [`renew_now`](Self::renew_now). Returns
    /// whether all of them were renewed.
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

    /// Processes the answer to a renewal with `ttl`.
    fn take_answer(&self, answer: Renewal, ttl: Duration) -> Result<(Moment, Duration)> {
        self.record_renewal(&answer);
        let (sent, length) = self.accept(answer)?;
        // The ttl changes only after a success, because the old lease continues after a failure. The ttl changes before
        // the call of `renewed`, which limits a lease without renewals to this ttl.
        self.set_ttl(ttl);
        self.renewed(sent, length);
        Ok((sent, length))
    }

    /// Returns the time at which the successful request was sent, and the length of the granted lease. If this owner no
    /// longer has the grant, marks the lease as lost.
    pub(crate) fn accept(&self, answer: Renewal) -> Result<(Moment, Duration)> {
        match answer {
            Renewal::Renewed { sent, lease, .. } => {
                // The answer may have arrived after the old lease ended. In that case the lock stays lost.
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
