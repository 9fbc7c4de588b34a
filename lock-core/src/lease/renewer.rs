//! Runs the loop that renews due leases and reports losses.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use tokio::runtime::Id;

use super::due::{Due, instant};
use super::lease::Lease;
use super::schedule::Schedule;
use crate::backend::{Renew, Renewal};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, LossReason};
use crate::local_queue::{LocalQueue, RECLAIM_AFTER};
use crate::store::Store;
use crate::sync::survives;

/// The maximum number of leases in one call of the backend.
const MAX_BATCH: usize = 2_000;

/// The shortest timeout of a renewal.
const SHORTEST_CALL: Duration = Duration::from_millis(50);

/// The longest sleep of the loop. While the machine is suspended, tokio's timers stop, but leases continue. With this
/// limit, the loop wakes soon after a suspend.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// How late the loop must wake to count as stalled. On a machine that is not overloaded, timers are far more punctual.
const STALL: Duration = Duration::from_millis(50);

/// The renewal loop of one runtime. The loop renews leases in batches, and reclaims hand-offs that waiters of the local
/// queue have not accepted. It also releases grants whose time to linger is over.
#[derive(Debug)]
pub(super) struct Renewer {
    store: Store,
    local_queue: Arc<LocalQueue>,
    clock: Clock,
    schedule: Arc<Schedule>,
}

impl Renewer {
    pub(super) fn new(store: Store, local_queue: Arc<LocalQueue>, clock: Clock, runtime: Id) -> Arc<Self> {
        Arc::new(Self { store, local_queue, clock, schedule: Schedule::new(runtime) })
    }

    pub(super) fn schedule(&self) -> &Arc<Schedule> {
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

    /// Reclaims hand-offs that waiters of this process have not accepted in time. Returns the time of the next call, if
    /// one is needed.
    ///
    /// One call serves all hand-offs. An entry in the schedule for each hand-off would cost more than the hand-off
    /// itself.
    fn reclaim(&self, due: Option<Moment>) -> Option<Moment> {
        let now = self.clock.now();
        if let Some(due) = due {
            if !due.is_past(now) {
                return Some(due);
            }
            survives(|| self.local_queue.reclaim(RECLAIM_AFTER));
        }
        self.local_queue.signal.is_raised().then(|| now.plus(RECLAIM_AFTER))
    }

    /// Sleeps until something is due, or until an earlier entry is added.
    async fn sleep(&self, reclaim: Option<Moment>) {
        let mut needed = pin!(self.local_queue.signal.raised());
        // The loop registers before it reads the flag, because a notification reaches only registered listeners.
        needed.as_mut().enable();
        if reclaim.is_none() && self.local_queue.signal.is_raised() {
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
        let mut batch: Vec<_> =
            due.map(|lease| (self.store.backend.shard_of_dyn(lease.claim()), lease)).collect();
        batch.sort_unstable_by_key(|(shard, lease)| (*shard, lease.ttl()));
        // The timeout of a batch depends on its shortest lease, so leases of very different lengths are renewed in
        // separate batches. Each shard has its own batches, because a shard that hangs must not delay the renewals of
        // another shard.
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
        // Until the renewal is answered, the lease is checked again only at its deadline.
        self.schedule.file(lease, lease.last_look());
        // `extend` or a warning may cause a check while a renewal is under way. In that case no second renewal is sent.
        // The answer to the first renewal schedules the next one.
        let renews = lease.options.renew && !lease.renewal_in_flight.swap(true, Ordering::AcqRel);
        // The warning comes last, because the application's log subscriber may panic.
        survives(|| lease.record_if_held_long(self.clock.now()));
        renews
    }

    async fn renew(self: Arc<Self>, leases: Vec<Arc<Lease>>) {
        // The requested leases are recorded before the request. Even if this renewal is not answered, a release of the
        // lease must be repeated until the extended lease is over. `asked` must not change a grant that was handed off,
        // so ended leases are removed first.
        let leases = leases.into_iter().filter(|lease| !lease.has_ended());
        let asked = leases.map(|lease| {
            let ttl = lease.ttl();
            lease.asked(ttl);
            (lease, ttl)
        });
        let mut asked: Vec<_> = asked.collect();
        // This memory fence pairs with the one in `as_handoff`. If a grant was already handed off, it is not renewed
        // here. If a grant is handed off later, the requested lease is part of the hand-off.
        atomic::fence(Ordering::SeqCst);
        asked.retain(|(lease, _)| !lease.has_ended());
        let (leases, ttls): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let batch: Vec<_> =
            leases.iter().zip(&ttls).map(|(lease, ttl)| Renew { claim: lease.claim(), ttl: *ttl }).collect();
        let shared: Vec<_> = leases.iter().map(|lease| lease.claim().may_be_shared()).collect();
        // This value is made before the first await. Its drop schedules the retries, also if the backend panics or the
        // task is dropped with its runtime.
        let mut open = Unanswered { renewer: &self, leases: &leases, answered: 0 };
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else { return };
        // The backend has its own timeouts. This timeout protects against a backend that ignores them. A renewal starts
        // at a third of the lease and times out at two thirds, so there is time for a retry.
        let deadline = (shortest / 3).max(SHORTEST_CALL);
        let Ok(answers) = tokio::time::timeout(deadline, self.store.renew(&batch)).await else {
            return;
        };
        for (((lease, renew), shared), answer) in leases.iter().zip(&batch).zip(shared).zip(answers) {
            open.answered += 1;
            match answer {
                // A downgrade during the renewal; see [`Lease::renew_now`].
                Renewal::NotOwned if shared != lease.claim().may_be_shared() => {
                    self.try_again(lease, renew.ttl)
                }
                answer => drop(survives(|| self.answered(lease, renew.ttl, answer))),
            }
        }
    }

    /// Schedules a retry of a renewal whose grant has become shared, by a downgrade, while the renewal was under way.
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
        // A lock whose deadline has passed is lost, even if the loss was not reported yet. A late success does not
        // change this.
        if lease.has_ended() || lease.loss().is_some() {
            if matches!(answer, Renewal::NotOwned) {
                // The grant may have been handed off in the meantime, or may linger. In both cases the loss must be
                // recorded.
                lease.engine.grant_is_gone(lease.claim());
            }
            return;
        }
        survives(|| lease.record_renewal(&answer));
        match answer {
            Renewal::Renewed { sent, lease: length, waiters } => {
                if waiters.is_some_and(|waiters| waiters > 0) {
                    // The store's notification of waiters may have been lost, so this answer counts too.
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
                // The warning comes after the retry is scheduled, because the application's log subscriber may panic.
                if lease.endanger() {
                    lease.record_endangered(&error);
                }
            }
        }
    }
}

/// The leases of one batch. Dropping this value schedules a retry for each lease without an answer. A lease has no
/// answer if the call takes too long, panics or returns too few answers.
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
