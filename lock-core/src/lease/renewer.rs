//! The loop that renews leases when they are due, and reports losses.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use tokio::runtime::Id;

use super::lease::Lease;
use super::renew::Form;
use super::schedule::{Due, Schedule, instant};
use crate::backend::{Renew, Renewal};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, LossReason};
use crate::local_queue::{LocalQueue, RECLAIM_AFTER};
use crate::store::Store;
use crate::sync::survives;

/// The largest number of leases in one call of the backend.
const MAX_BATCH: usize = 2_000;

/// The shortest time after which a renewal is given up.
const SHORTEST_CALL: Duration = Duration::from_millis(50);

/// The longest sleep. tokio's timers stand still while the machine is suspended, and leases do not.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// How late the loop must be for a stall: far more than timers are late on a machine that is not overloaded.
const STALL: Duration = Duration::from_millis(50);

/// The loop of one runtime. It renews its leases in batches, reclaims hand-offs that waiters of the local queue do not
/// take, and releases the grants that have lingered for long enough.
#[derive(Debug)]
pub(super) struct Renewer {
    store: Store,
    local_queue: Arc<LocalQueue>,
    clock: Clock,
    schedule: Arc<Schedule<Lease>>,
}

impl Renewer {
    pub(super) fn new(store: Store, local_queue: Arc<LocalQueue>, clock: Clock, runtime: Id) -> Arc<Self> {
        Arc::new(Self { store, local_queue, clock, schedule: Schedule::new(runtime) })
    }

    pub(super) fn schedule(&self) -> &Arc<Schedule<Lease>> {
        &self.schedule
    }

    /// Runs until the schedule is closed.
    pub(super) async fn run(self: Arc<Self>) {
        let mut reclaim = None;
        while !self.schedule.is_closing() {
            let due = self.schedule.take_due(self.clock.now());
            self.look_at(due);
            reclaim = self.reclaim(reclaim);
            survives(|| self.local_queue.end_lingering());
            self.sleep(reclaim).await;
        }
    }

    /// Reclaims hand-offs that waiters of this process have not taken in time. Returns when to call this next.
    ///
    /// One pass serves all of them, because an entry in the schedule for each hand-off would cost more than the
    /// hand-off.
    fn reclaim(&self, due: Option<Moment>) -> Option<Moment> {
        let now = self.clock.now();
        if let Some(due) = due {
            if !due.is_past(now) {
                return Some(due);
            }
            survives(|| self.local_queue.reclaim(RECLAIM_AFTER));
        }
        self.local_queue.needs_reclaim().then(|| now.plus(RECLAIM_AFTER))
    }

    /// Sleeps until something is due, or something earlier is filed.
    async fn sleep(&self, reclaim: Option<Moment>) {
        let mut needed = pin!(self.local_queue.reclaim_needed());
        // The loop registers before it reads the flag: a notification reaches only registered waiters.
        needed.as_mut().enable();
        if reclaim.is_none() && self.local_queue.needs_reclaim() {
            return;
        }
        let mut lingers = pin!(self.local_queue.lingering_due_earlier());
        lingers.as_mut().enable();
        let limit = reclaim.map_or(i64::MAX, instant).min(self.local_queue.lingering_due());
        let Some(next) = self.schedule.sleeps_until(limit) else { return };
        let now = self.clock.now();
        let pause = Duration::from_nanos(u64::try_from(next.saturating_sub(instant(now))).unwrap_or(0));
        let pause = pause.min(MAX_SLEEP);
        tokio::select! {
            // `biased` keeps the simulation deterministic.
            biased;
            () = self.schedule.woken() => {}
            () = needed, if reclaim.is_none() => {}
            () = lingers => {}
            () = tokio::time::sleep(pause), if next < i64::MAX => {}
        }
        if next < i64::MAX {
            self.record_stall(now.plus(pause));
        }
    }

    /// Records a stall, if the loop woke much later than `planned`.
    fn record_stall(&self, planned: Moment) {
        let now = self.clock.now();
        let late = Duration::from_nanos(u64::try_from(instant(now) - instant(planned)).unwrap_or(0));
        if late >= STALL {
            survives(|| self.store.observer().record_stall(late));
        }
    }

    fn look_at(self: &Arc<Self>, due: Vec<Arc<Lease>>) {
        let due = due.into_iter().filter(|lease| survives(|| self.look(lease)).unwrap_or(false));
        let mut batch: Vec<_> = due.map(|lease| (self.store.shard_of(lease.claim()), lease)).collect();
        batch.sort_unstable_by_key(|(shard, lease)| (*shard, lease.ttl()));
        // A batch waits as long as its shortest lease allows, so leases of very different lengths go in separate
        // batches. A shard of the store that hangs must not delay the renewals of another shard.
        let alike = |first: &(u64, Arc<Lease>), (shard, lease): &(u64, Arc<Lease>)| {
            *shard == first.0 && lease.ttl() <= first.1.ttl() * 4
        };
        let mut rest = batch.as_slice();
        while let Some(first) = rest.first() {
            let len = rest.iter().take(MAX_BATCH).take_while(|one| alike(first, one)).count();
            let (these, others) = rest.split_at(len);
            // Each call is a separate task: a store that hangs must not keep the loop from reporting losses.
            tokio::spawn(Arc::clone(self).renew(these.iter().map(|(_, lease)| Arc::clone(lease)).collect()));
            rest = others;
        }
    }

    /// Reports a loss. Returns whether a renewal must be sent.
    fn look(&self, lease: &Arc<Lease>) -> bool {
        if lease.loss().is_some() || lease.has_ended() {
            return false;
        }
        // Until the renewal is answered, only the deadline need be watched.
        self.schedule.file(lease, lease.last_look());
        // `extend` or a warning may cause a check while a renewal is under way. The answer to that renewal plans the
        // next one.
        let renews = lease.options.renew && !lease.renewal_in_flight.swap(true, Ordering::AcqRel);
        // This comes after everything that the lock needs, because the log of the application may panic.
        survives(|| lease.record_if_held_long(self.clock.now()));
        renews
    }

    async fn renew(self: Arc<Self>, leases: Vec<Arc<Lease>>) {
        // This comes before the request: the release of each lease must outlast a lease that this renewal may extend
        // without an answer. The request counts for the grant, even if it was handed off by now.
        let leases = leases.into_iter().filter(|lease| !lease.has_ended());
        let asked = leases.map(|lease| {
            let ttl = lease.ttl();
            lease.asked(ttl);
            (lease, ttl)
        });
        let mut asked: Vec<_> = asked.collect();
        // Pairs with the fence in `as_handoff`. A grant that was handed off meanwhile is not renewed here; a grant that
        // is handed off from now on passes on the requested lease.
        atomic::fence(Ordering::SeqCst);
        asked.retain(|(lease, _)| !lease.has_ended());
        let (leases, ttls): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let batch: Vec<_> =
            leases.iter().zip(&ttls).map(|(lease, ttl)| Renew { claim: lease.claim(), ttl: *ttl }).collect();
        let named: Vec<_> = leases.iter().map(|lease| Form::new(lease.claim())).collect();
        // This comes before the first await: the backend may panic, and the task may be dropped with its runtime.
        let mut open = Unanswered { renewer: &self, leases: &leases, answered: 0 };
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else { return };
        // The backend has its own deadlines; this one is for a misbehaving backend. A renewal that is due at a third of
        // the lease is then given up at two thirds, and there is time to try again.
        let deadline = (shortest / 3).max(SHORTEST_CALL);
        let Ok(answers) = tokio::time::timeout(deadline, self.store.renew(&batch)).await else {
            return;
        };
        for (((lease, renew), named), answer) in leases.iter().zip(&batch).zip(named).zip(answers) {
            open.answered += 1;
            match answer {
                Renewal::NotOwned if named.is_former(lease.claim()) => self.try_again(lease, renew.ttl),
                answer => drop(survives(|| self.answered(lease, renew.ttl, answer))),
            }
        }
    }

    /// Plans a renewal again if a downgrade has overtaken it.
    fn try_again(&self, lease: &Arc<Lease>, ttl: Duration) {
        lease.renewal_in_flight.store(false, Ordering::Release);
        if !lease.has_ended() && lease.loss().is_none() {
            let now = self.clock.now();
            let retry = Due::retry(now, ttl, lease.deadline().remaining(now));
            self.schedule.file(lease, lease.within_limits(retry));
        }
    }

    fn answered(&self, lease: &Arc<Lease>, ttl: Duration, answer: Renewal) {
        lease.renewal_in_flight.store(false, Ordering::Release);
        // A lock whose deadline has passed is lost, reported or not, and stays so: a late yes does not bring it back.
        if lease.has_ended() || lease.loss().is_some() {
            if matches!(answer, Renewal::NotOwned) {
                // The grant may have been handed off meanwhile, or linger.
                lease.engine.grant_is_gone(lease.claim());
            }
            return;
        }
        survives(|| lease.record_renewal(&answer));
        match answer {
            Renewal::Renewed { sent, lease: length, waiters } => {
                if waiters.is_some_and(|waiters| waiters > 0) {
                    // The store's notification may have been lost.
                    lease.engine.local_queue.contended(&lease.claim().key);
                }
                lease.renewed(sent, length);
                self.schedule.watch_renewed(lease, sent, length);
            }
            Renewal::NotOwned => {
                lease.lose(LossReason::Taken);
            }
            Renewal::Unknown(error) => {
                let now = self.clock.now();
                let retry = Due::retry(now, ttl, lease.deadline().remaining(now));
                self.schedule.file(lease, lease.within_limits(retry));
                // This comes after the retry is planned, because the log of the application may panic.
                if lease.endanger() {
                    lease.record_endangered(&error);
                }
            }
        }
    }
}

/// The leases of one batch. If the call takes too long, panics or returns too few answers, the drop of this value plans
/// another try for the leases without one.
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

#[cfg(test)]
mod tests;
