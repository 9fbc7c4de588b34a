//! The loop that renews what is due and tells what is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use super::cleanup;
use super::schedule::{Due, DueQueue, instant};
use crate::backend::{Renew, Renewal};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, LossReason};
use crate::lease::Hold;
use crate::local_queue::{LocalQueue, UNHEARD};
use crate::store::Store;

/// The most grants in one call of the backend.
const MAX_BATCH: usize = 2_000;

/// No renewal is given up sooner.
const SHORTEST_CALL: Duration = Duration::from_millis(50);

/// The longest sleep: tokio's timers stand still while the machine is suspended, leases do not.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The queue and its loop; shared between the loop and those who file grants.
#[derive(Debug)]
pub(crate) struct Renewer {
    pub(super) store: Store,
    /// Who waits here, and may not hear what it is told.
    pub(super) local_queue: Arc<LocalQueue>,
    clock: Clock,
    queue: Mutex<DueQueue>,
    /// When the loop wakes by itself; who files something earlier must wake it.
    wakes_at: AtomicI64,
    wake: Notify,
    /// Releases under way, for an orderly end.
    pub(super) releases: AtomicUsize,
    pub(super) released: Notify,
    pub(super) release_turns: Semaphore,
    closing: AtomicBool,
    /// Releases that are repeated to be safe come to their end now.
    hurrying: AtomicBool,
    pub(super) hurry: Notify,
}

impl Renewer {
    pub(crate) fn new(store: Store, local_queue: Arc<LocalQueue>, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            store,
            local_queue,
            clock,
            queue: Mutex::default(),
            wakes_at: AtomicI64::new(i64::MIN),
            wake: Notify::new(),
            releases: AtomicUsize::new(0),
            released: Notify::new(),
            release_turns: Semaphore::new(cleanup::AT_ONCE),
            closing: AtomicBool::new(false),
            hurrying: AtomicBool::new(false),
            hurry: Notify::new(),
        })
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    fn queue(&self) -> MutexGuard<'_, DueQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to keep a new grant, which the store gave for `lease`. One that is shorter than the ttl is extended when a
    /// third of it is over: at once would cost every short hold a request.
    pub(crate) fn watch(&self, hold: &Arc<Hold>, lease: Duration) {
        if hold.options.renew && lease < hold.ttl() {
            self.file(hold, within_limits(hold, next_renewal(hold, hold.since, lease)));
        } else {
            self.extended(hold, hold.since, lease);
        }
    }

    /// Watches for the end of a grant that nobody has yet: it is not renewed, and its loss is told.
    pub(crate) fn watch_end(&self, hold: &Arc<Hold>) {
        self.file(hold, last_look(hold));
    }

    /// Begins to keep a grant that another holder of this process had.
    pub(crate) fn watch_handoff(&self, hold: &Arc<Hold>) {
        // The lease may be shorter than what its new holder asks for: another one asked for it, or the store gave less.
        let sent = hold.confirmed();
        self.extended(hold, sent, hold.ttl().min(hold.deadline().since(sent)));
    }

    /// The lease of `hold` was changed by a renewal outside the loop, sent at `sent`.
    pub(crate) fn extended(&self, hold: &Arc<Hold>, sent: Moment, lease: Duration) {
        let due = if hold.options.renew { next_renewal(hold, sent, lease) } else { last_look(hold) };
        self.file(hold, within_limits(hold, due));
    }

    fn file(&self, hold: &Arc<Hold>, due: Due) {
        self.queue().file(hold, due);
        if due.late < self.wakes_at.load(Ordering::Acquire) {
            self.wake.notify_one();
        }
    }

    /// Every live grant of this renewer.
    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        self.queue().holds()
    }

    /// How many releases of dropped guards are not answered yet.
    pub(crate) fn pending_releases(&self) -> usize {
        self.releases.load(Ordering::Acquire)
    }

    /// Completes when no release is pending.
    pub(crate) async fn all_released(&self) {
        cleanup::all_answered(self).await;
    }

    /// Ends the repetition of releases that were answered: somebody waits for the last of them.
    pub(crate) fn hurry(&self) {
        self.hurrying.store(true, Ordering::Release);
        self.hurry.notify_waiters();
    }

    pub(super) fn is_hurrying(&self) -> bool {
        self.hurrying.load(Ordering::Acquire)
    }

    /// Ends the loop once no release is pending any more.
    pub(crate) fn close(&self) {
        self.hurry();
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Runs until [`close`](Self::close).
    pub(super) async fn run(self: Arc<Self>) {
        let mut look = None;
        while !self.is_closing() {
            let due = self.queue().take_due(self.clock.now());
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
            survives(|| self.local_queue.look(UNHEARD));
        }
        self.local_queue.is_open().then(|| now.plus(UNHEARD))
    }

    /// Sleeps until the next look is due or something earlier is filed.
    async fn sleep(&self, look: Option<Moment>) {
        let mut opens = pin!(self.local_queue.opens());
        opens.as_mut().enable();
        if look.is_none() && self.local_queue.is_open() {
            return;
        }
        let look_at = look.map_or(i64::MAX, instant);
        let next = self.queue().next().unwrap_or(i64::MAX).min(look_at);
        self.wakes_at.store(next, Ordering::Release);
        // Something may have been filed between reading the queue and saying when this wakes.
        if self.queue().next().unwrap_or(i64::MAX) < next {
            return;
        }
        let now = instant(self.clock.now());
        let pause = Duration::from_nanos(u64::try_from(next.saturating_sub(now)).unwrap_or(0));
        tokio::select! {
            // Not in an order of chance: a simulation is to be the same again.
            biased;
            () = self.wake.notified() => {}
            () = opens, if look.is_none() => {}
            () = tokio::time::sleep(pause.min(MAX_SLEEP)), if next < i64::MAX => {}
        }
    }

    fn look_at(self: &Arc<Self>, due: Vec<Arc<Hold>>) {
        let due = due.into_iter().filter(|hold| survives(|| self.look(hold)).unwrap_or(false));
        let mut batch: Vec<_> = due.map(|hold| (self.store.shard_of(&hold.claim), hold)).collect();
        batch.sort_unstable_by_key(|(part, hold)| (*part, hold.ttl()));
        // Grants with a short lease have little time for an answer, which must not be the measure for all others; and a
        // part of the store that hangs has none for those of another part.
        let alike = |first: &(u64, Arc<Hold>), (part, hold): &(u64, Arc<Hold>)| {
            *part == first.0 && hold.ttl() <= first.1.ttl() * 4
        };
        let mut rest = batch.as_slice();
        while let Some(first) = rest.first() {
            let len = rest.iter().take(MAX_BATCH).take_while(|one| alike(first, one)).count();
            let (these, others) = rest.split_at(len);
            // Each call has a task of its own: a store that hangs must not keep the loop from telling losses.
            tokio::spawn(Arc::clone(self).renew(these.iter().map(|(_, hold)| Arc::clone(hold)).collect()));
            rest = others;
        }
    }

    /// Tells a loss; says whether a renewal is to be sent.
    fn look(&self, hold: &Arc<Hold>) -> bool {
        if hold.loss().is_some() || hold.has_ended() {
            return false;
        }
        hold.record_if_held_long(self.clock.now());
        // Until the renewal is answered, the deadline is what is left to watch.
        self.file(hold, last_look(hold));
        hold.options.renew && !hold.renewal_in_flight.swap(true, Ordering::AcqRel)
    }

    async fn renew(self: Arc<Self>, holds: Vec<Arc<Hold>>) {
        let batch: Vec<_> = holds.iter().map(|hold| Renew { claim: &hold.claim, ttl: hold.ttl() }).collect();
        let mut open = Unanswered { renewer: &self, holds: &holds, answered: 0 };
        for (hold, renew) in holds.iter().zip(&batch) {
            hold.asked(renew.ttl);
        }
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else { return };
        // The backend has deadlines of its own; this one is for a backend without manners.
        let deadline = (shortest / 3).max(SHORTEST_CALL);
        let Ok(answers) = tokio::time::timeout(deadline, self.store.renew(&batch)).await else {
            return;
        };
        for ((hold, renew), answer) in holds.iter().zip(&batch).zip(answers) {
            open.answered += 1;
            survives(|| self.answered(hold, renew.ttl, answer));
        }
    }

    fn answered(&self, hold: &Arc<Hold>, ttl: Duration, answer: Renewal) {
        hold.renewal_in_flight.store(false, Ordering::Release);
        // A lock whose deadline has passed is lost, told or not, and stays so: a late yes does not bring it back.
        if hold.has_ended() || hold.loss().is_some() {
            return;
        }
        hold.record_renewal(&answer);
        match answer {
            Renewal::Renewed { sent, lease, waiters } => {
                if waiters.is_some_and(|waiters| waiters > 0) {
                    // The store's own word may have been lost.
                    hold.engine.local_queue.contended(hold.claim.key.as_str());
                }
                hold.renewed(sent, lease);
                self.file(hold, within_limits(hold, next_renewal(hold, sent, lease)));
            }
            Renewal::NotOwned => {
                hold.lose(LossReason::Taken);
            }
            Renewal::Unknown(error) => {
                if hold.endanger() {
                    hold.record_endangered(&error);
                }
                self.file(hold, within_limits(hold, Due::retry(self.clock.now(), ttl)));
            }
        }
    }
}

/// Grants of one batch. Those without an answer, because the call took too long, panicked or said too little, count as
/// not answered, so that they are tried again.
struct Unanswered<'a> {
    renewer: &'a Renewer,
    holds: &'a [Arc<Hold>],
    answered: usize,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        for hold in &self.holds[self.answered..] {
            let error = LockError::new(LockErrorKind::Unavailable, "the store did not answer the renewal");
            survives(|| self.renewer.answered(hold, hold.ttl(), Renewal::Unknown(error)));
        }
    }
}

/// Runs what may call into the application (its log, its wakers): a panic there must not end all renewals.
fn survives<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// The look at which the grant is lost, unless renewed by then.
fn last_look(hold: &Hold) -> Due {
    let end = Due::at(hold.deadline());
    hold.max_hold_end().map_or(end, |limit| end.no_later_than(limit))
}

/// The renewal after the one that was sent at `sent` and gave `lease`.
fn next_renewal(hold: &Hold, sent: Moment, lease: Duration) -> Due {
    // A third of the lease is the rule.
    let lease = hold.options.renew_every.map_or(lease, |every| lease.min(every.saturating_mul(3)));
    Due::renewal(sent, lease, fastrand::f64())
}

fn within_limits(hold: &Hold, due: Due) -> Due {
    let due = due.no_later_than(hold.deadline());
    let due = hold.max_hold_end().map_or(due, |limit| due.no_later_than(limit));
    hold.held_long_at().map_or(due, |long| due.no_later_than(long))
}

#[cfg(test)]
mod tests;
