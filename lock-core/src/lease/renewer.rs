//! The loop that renews what is due and tells what is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::lease::Lease;
use super::schedule::{Due, Schedule, instant};
use crate::backend::{Renew, Renewal};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, LossReason};
use crate::local_queue::{LocalQueue, RECLAIM_AFTER};
use crate::store::Store;

/// The most grants in one call of the backend.
const MAX_BATCH: usize = 2_000;

/// No renewal is given up sooner.
const SHORTEST_CALL: Duration = Duration::from_millis(50);

/// The longest sleep: tokio's timers stand still while the machine is suspended, leases do not.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The loop of one runtime.
#[derive(Debug)]
pub(super) struct Renewer {
    store: Store,
    /// Who waits here, and may not hear what it is told.
    local_queue: Arc<LocalQueue>,
    clock: Clock,
    schedule: Arc<Schedule<Lease>>,
}

impl Renewer {
    pub(super) fn new(store: Store, local_queue: Arc<LocalQueue>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { store, local_queue, clock, schedule: Schedule::new() })
    }

    pub(super) fn schedule(&self) -> &Arc<Schedule<Lease>> {
        &self.schedule
    }

    /// Runs until the schedule is closed.
    pub(super) async fn run(self: Arc<Self>) {
        let mut look = None;
        while !self.schedule.is_closing() {
            let due = self.schedule.take_due(self.clock.now());
            self.look_at(due);
            look = self.look_round(look);
            self.sleep(look).await;
        }
    }

    /// Looks after what waiters of this process were told, once it is time; when it is time again.
    ///
    /// One look for all of them, because an entry in the queue for each turn would cost more than the turn.
    fn look_round(&self, look: Option<Moment>) -> Option<Moment> {
        let now = self.clock.now();
        if let Some(look) = look {
            if !look.is_past(now) {
                return Some(look);
            }
            survives(|| self.local_queue.reclaim(RECLAIM_AFTER));
        }
        self.local_queue.needs_reclaim().then(|| now.plus(RECLAIM_AFTER))
    }

    /// Sleeps until the next look is due or something earlier is filed.
    async fn sleep(&self, look: Option<Moment>) {
        let mut opens = pin!(self.local_queue.reclaim_needed());
        opens.as_mut().enable();
        if look.is_none() && self.local_queue.needs_reclaim() {
            return;
        }
        let look_at = look.map_or(i64::MAX, instant);
        let Some(next) = self.schedule.sleeps_until(look_at) else { return };
        let now = instant(self.clock.now());
        let pause = Duration::from_nanos(u64::try_from(next.saturating_sub(now)).unwrap_or(0));
        tokio::select! {
            // Not in an order of chance: a simulation is to be the same again.
            biased;
            () = self.schedule.woken() => {}
            () = opens, if look.is_none() => {}
            () = tokio::time::sleep(pause.min(MAX_SLEEP)), if next < i64::MAX => {}
        }
    }

    fn look_at(self: &Arc<Self>, due: Vec<Arc<Lease>>) {
        let due = due.into_iter().filter(|lease| survives(|| self.look(lease)).unwrap_or(false));
        let mut batch: Vec<_> = due.map(|lease| (self.store.shard_of(&lease.claim), lease)).collect();
        batch.sort_unstable_by_key(|(part, lease)| (*part, lease.ttl()));
        // Grants with a short lease have little time for an answer, which must not be the measure for all others; and a
        // part of the store that hangs has none for those of another part.
        let alike = |first: &(u64, Arc<Lease>), (part, lease): &(u64, Arc<Lease>)| {
            *part == first.0 && lease.ttl() <= first.1.ttl() * 4
        };
        let mut rest = batch.as_slice();
        while let Some(first) = rest.first() {
            let len = rest.iter().take(MAX_BATCH).take_while(|one| alike(first, one)).count();
            let (these, others) = rest.split_at(len);
            // Each call has a task of its own: a store that hangs must not keep the loop from telling losses.
            tokio::spawn(Arc::clone(self).renew(these.iter().map(|(_, lease)| Arc::clone(lease)).collect()));
            rest = others;
        }
    }

    /// Tells a loss; says whether a renewal is to be sent.
    fn look(&self, lease: &Arc<Lease>) -> bool {
        if lease.loss().is_some() || lease.has_ended() {
            return false;
        }
        lease.record_if_held_long(self.clock.now());
        // Until the renewal is answered, the deadline is what is left to watch.
        self.schedule.file(lease, lease.last_look());
        lease.options.renew && !lease.renewal_in_flight.swap(true, Ordering::AcqRel)
    }

    async fn renew(self: Arc<Self>, leases: Vec<Arc<Lease>>) {
        let batch: Vec<_> =
            leases.iter().map(|lease| Renew { claim: &lease.claim, ttl: lease.ttl() }).collect();
        let mut open = Unanswered { renewer: &self, leases: &leases, answered: 0 };
        for (lease, renew) in leases.iter().zip(&batch) {
            lease.asked(renew.ttl);
        }
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else { return };
        // The backend has deadlines of its own; this one is for a backend without manners.
        let deadline = (shortest / 3).max(SHORTEST_CALL);
        let Ok(answers) = tokio::time::timeout(deadline, self.store.renew(&batch)).await else {
            return;
        };
        for ((lease, renew), answer) in leases.iter().zip(&batch).zip(answers) {
            open.answered += 1;
            survives(|| self.answered(lease, renew.ttl, answer));
        }
    }

    fn answered(&self, lease: &Arc<Lease>, ttl: Duration, answer: Renewal) {
        lease.renewal_in_flight.store(false, Ordering::Release);
        // A lock whose deadline has passed is lost, told or not, and stays so: a late yes does not bring it back.
        if lease.has_ended() || lease.loss().is_some() {
            return;
        }
        lease.record_renewal(&answer);
        match answer {
            Renewal::Renewed { sent, lease: length, waiters } => {
                if waiters.is_some_and(|waiters| waiters > 0) {
                    // The store's own word may have been lost.
                    lease.engine.local_queue.contended(lease.claim.key.as_str());
                }
                lease.renewed(sent, length);
                self.schedule.watch_renewed(lease, sent, length);
            }
            Renewal::NotOwned => {
                lease.lose(LossReason::Taken);
            }
            Renewal::Unknown(error) => {
                if lease.endanger() {
                    lease.record_endangered(&error);
                }
                self.schedule.file(lease, lease.within_limits(Due::retry(self.clock.now(), ttl)));
            }
        }
    }
}

/// Grants of one batch. Those without an answer, because the call took too long, panicked or said too little, count as
/// not answered, so that they are tried again.
struct Unanswered<'a> {
    renewer: &'a Renewer,
    leases: &'a [Arc<Lease>],
    answered: usize,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        for lease in &self.leases[self.answered..] {
            let error = LockError::new(LockErrorKind::Unavailable, "the store did not answer the renewal");
            survives(|| self.renewer.answered(lease, lease.ttl(), Renewal::Unknown(error)));
        }
    }
}

/// Runs what may call into the application (its log, its wakers): a panic there must not end all renewals.
fn survives<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

#[cfg(test)]
mod tests;
