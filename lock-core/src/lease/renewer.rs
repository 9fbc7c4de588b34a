//! Runs the loop that renews due leases and reports losses.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use tokio::runtime::Id;

use super::due::{Due, instant};
use super::lease::Lease;
use super::renew::Form;
use super::schedule::Schedule;
use crate::backend::{Renew, Renewal};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, LossReason};
use crate::local_queue::{LocalQueue, RECLAIM_AFTER};
use crate::store::Store;
use crate::sync::survives;

/// The maximum number of leases in one call of the backend.
const MAX_BATCH: usize = 2_000;

/// The minimum time after which a renewal is given up.
const SHORTEST_CALL: Duration = Duration::from_millis(50);

/// The longest sleep of the loop. It is limited because tokio's timers stop while the machine is suspended, and leases
/// do not.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// How late the loop must be to count as stalled. On a machine that is not overloaded, timers are far less late.
const STALL: Duration = Duration::from_millis(50);

/// The renewal loop of one runtime. It renews leases in batches, reclaims hand-offs that waiters of the local queue do
/// not accept, and releases grants that have lingered long enough.
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

    /// Runs the loop until the schedule is closed.
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

    /// Reclaims hand-offs that waiters of this process have not accepted in time. Returns when to call this next.
    ///
    /// One pass serves all hand-offs, because an entry in the schedule for each hand-off would cost more than the
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

    /// Sleeps until something is due, or until an earlier entry is added.
    async fn sleep(&self, reclaim: Option<Moment>) {
        let mut needed = pin!(self.local_queue.reclaim_needed());
        // The loop registers before it reads the flag, because a notification reaches only registered waiters.
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

    /// Records a stall if the loop woke much later than `planned`.
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
        // The timeout of a batch depends on its shortest lease, so leases of very different lengths go into separate
        // batches. Each shard has its own batches, because a shard that hangs must not delay the renewals of another.
        let alike = |first: &(u64, Arc<Lease>), (shard, lease): &(u64, Arc<Lease>)| {
            *shard == first.0 && lease.ttl() <= first.1.ttl() * 4
        };
        let mut rest = batch.as_slice();
        while let Some(first) = rest.first() {
            let len = rest.iter().take(MAX_BATCH).take_while(|one| alike(first, one)).count();
            let (these, others) = rest.split_at(len);
            // Each call is a separate task, so that the loop still reports losses while a store hangs.
            tokio::spawn(Arc::clone(self).renew(these.iter().map(|(_, lease)| Arc::clone(lease)).collect()));
            rest = others;
        }
    }

    /// Checks a lease, and reports its loss. Returns whether a renewal must be sent.
    fn look(&self, lease: &Arc<Lease>) -> bool {
        if lease.loss().is_some() || lease.has_ended() {
            return false;
        }
        // Until the renewal is answered, only the deadline must be watched.
        self.schedule.file(lease, lease.last_look());
        // `extend` or a warning may cause a check while a renewal is under way. In that case no second renewal is sent,
        // because the answer to the first one plans the next.
        let renews = lease.options.renew && !lease.renewal_in_flight.swap(true, Ordering::AcqRel);
        // This comes last, because the log of the application may panic.
        survives(|| lease.record_if_held_long(self.clock.now()));
        renews
    }

    async fn renew(self: Arc<Self>, leases: Vec<Arc<Lease>>) {
        // The requested leases are recorded before the request. A release of each lease must outlast the extension,
        // even if this renewal is not answered. A grant that was handed off would be affected too, so ended leases are
        // removed first.
        let leases = leases.into_iter().filter(|lease| !lease.has_ended());
        let asked = leases.map(|lease| {
            let ttl = lease.ttl();
            lease.asked(ttl);
            (lease, ttl)
        });
        let mut asked: Vec<_> = asked.collect();
        // This fence pairs with the fence in `as_handoff`. A grant that was already handed off is not renewed here. A
        // grant that is handed off from now on passes the requested lease on.
        atomic::fence(Ordering::SeqCst);
        asked.retain(|(lease, _)| !lease.has_ended());
        let (leases, ttls): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let batch: Vec<_> =
            leases.iter().zip(&ttls).map(|(lease, ttl)| Renew { claim: lease.claim(), ttl: *ttl }).collect();
        let named: Vec<_> = leases.iter().map(|lease| Form::new(lease.claim())).collect();
        // This value is made before the first await, because the backend may panic, and the task may be dropped with
        // its runtime.
        let mut open = Unanswered { renewer: &self, leases: &leases, answered: 0 };
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else { return };
        // The backend has its own timeouts; this one protects against a misbehaving backend. A renewal that is due at a
        // third of the lease is given up at two thirds, so there is time to try again.
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

    /// Plans the renewal again, if a downgrade overtook it.
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
        // If its deadline has passed, a lock is lost and stays lost, whether or not the loss was reported. A late
        // success does not revive it.
        if lease.has_ended() || lease.loss().is_some() {
            if matches!(answer, Renewal::NotOwned) {
                // The grant may have been handed off in the meantime, or may linger.
                lease.engine.grant_is_gone(lease.claim());
            }
            return;
        }
        survives(|| lease.record_renewal(&answer));
        match answer {
            Renewal::Renewed { sent, lease: length, waiters } => {
                if waiters.is_some_and(|waiters| waiters > 0) {
                    // The store's notification of waiters may have been lost, so they are recorded here too.
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
                // The warning comes after the retry is planned, because the log of the application may panic.
                if lease.endanger() {
                    lease.record_endangered(&error);
                }
            }
        }
    }
}

/// The leases of one batch. Dropping this value plans a retry for each lease without an answer. That happens if the
/// call takes too long, panics or returns too few answers.
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
