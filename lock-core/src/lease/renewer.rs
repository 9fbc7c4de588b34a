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
use crate::lease::Lease;
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
    pub(crate) fn watch(&self, lease: &Arc<Lease>, length: Duration) {
        if lease.options.renew && length < lease.ttl() {
            self.file(lease, within_limits(lease, next_renewal(lease, lease.since, length)));
        } else {
            self.extended(lease, lease.since, length);
        }
    }

    /// Watches for the end of a grant that nobody has yet: it is not renewed, and its loss is told.
    pub(crate) fn watch_end(&self, lease: &Arc<Lease>) {
        self.file(lease, last_look(lease));
    }

    /// Begins to keep a grant that another holder of this process had.
    pub(crate) fn watch_handoff(&self, lease: &Arc<Lease>) {
        // The lease may be shorter than what its new holder asks for: another one asked for it, or the store gave less.
        let sent = lease.confirmed();
        self.extended(lease, sent, lease.ttl().min(lease.deadline().since(sent)));
    }

    /// The lease of `hold` was changed by a renewal outside the loop, sent at `sent`.
    pub(crate) fn extended(&self, lease: &Arc<Lease>, sent: Moment, length: Duration) {
        let due = if lease.options.renew { next_renewal(lease, sent, length) } else { last_look(lease) };
        self.file(lease, within_limits(lease, due));
    }

    fn file(&self, lease: &Arc<Lease>, due: Due) {
        self.queue().file(lease, due);
        if due.late < self.wakes_at.load(Ordering::Acquire) {
            self.wake.notify_one();
        }
    }

    /// Every live grant of this renewer.
    pub(crate) fn leases(&self) -> Vec<Arc<Lease>> {
        self.queue().leases()
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
        self.file(lease, last_look(lease));
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
                self.file(lease, within_limits(lease, next_renewal(lease, sent, length)));
            }
            Renewal::NotOwned => {
                lease.lose(LossReason::Taken);
            }
            Renewal::Unknown(error) => {
                if lease.endanger() {
                    lease.record_endangered(&error);
                }
                self.file(lease, within_limits(lease, Due::retry(self.clock.now(), ttl)));
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

/// The look at which the grant is lost, unless renewed by then.
fn last_look(lease: &Lease) -> Due {
    let end = Due::at(lease.deadline());
    lease.max_hold_end().map_or(end, |limit| end.no_later_than(limit))
}

/// The renewal after the one that was sent at `sent` and gave `lease`.
fn next_renewal(lease: &Lease, sent: Moment, length: Duration) -> Due {
    // A third of the lease is the rule.
    let length = lease.options.renew_every.map_or(length, |every| length.min(every.saturating_mul(3)));
    Due::renewal(sent, length, fastrand::f64())
}

fn within_limits(lease: &Lease, due: Due) -> Due {
    let due = due.no_later_than(lease.deadline());
    let due = lease.max_hold_end().map_or(due, |limit| due.no_later_than(limit));
    lease.held_long_at().map_or(due, |long| due.no_later_than(long))
}

#[cfg(test)]
mod tests;
