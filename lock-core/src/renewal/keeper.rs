//! The loop that renews what is due and tells what is lost.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::queue::{Due, DueQueue};
use crate::backend::{DynBackend, Renew, Renewal};
use crate::clock::{Clock, Moment};
use crate::error::LossReason;
use crate::hold::Hold;

/// The most grants in one call of the backend.
const MAX_BATCH: usize = 2_000;

/// The longest sleep: tokio's timers stand still while the machine is suspended, leases do not.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The queue and its loop; shared between the loop and those who file grants.
#[derive(Debug)]
pub(crate) struct Keeper {
    backend: Arc<dyn DynBackend>,
    clock: Clock,
    queue: Mutex<DueQueue>,
    /// When the loop wakes by itself; who files something earlier must wake it.
    wakes_at: AtomicI64,
    wake: Notify,
    /// Releases under way, for an orderly end.
    pub(super) releases: AtomicUsize,
    pub(super) released: Notify,
    closing: AtomicBool,
    /// Releases that are repeated to be safe come to their end now.
    hurrying: AtomicBool,
    pub(super) hurry: Notify,
}

impl Keeper {
    pub(crate) fn new(backend: Arc<dyn DynBackend>, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            backend,
            clock,
            queue: Mutex::default(),
            wakes_at: AtomicI64::new(i64::MIN),
            wake: Notify::new(),
            releases: AtomicUsize::new(0),
            released: Notify::new(),
            closing: AtomicBool::new(false),
            hurrying: AtomicBool::new(false),
            hurry: Notify::new(),
        })
    }

    pub(super) fn backend(&self) -> &Arc<dyn DynBackend> {
        &self.backend
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    fn queue(&self) -> MutexGuard<'_, DueQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to keep a new grant.
    pub(crate) fn watch(&self, hold: &Arc<Hold>) {
        self.extended(hold, hold.since);
    }

    /// The lease of `hold` was changed by a renewal outside the loop, sent at `sent`.
    pub(crate) fn extended(&self, hold: &Arc<Hold>, sent: Moment) {
        let due =
            if hold.terms.renew { Due::renewal(sent, hold.ttl(), fastrand::f64()) } else { last_look(hold) };
        self.file(hold, within_limits(hold, due));
    }

    fn file(&self, hold: &Arc<Hold>, due: Due) {
        self.queue().file(hold, due);
        if due.late < self.wakes_at.load(Ordering::Acquire) {
            self.wake.notify_one();
        }
    }

    /// Every live grant of this keeper.
    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        self.queue().holds()
    }

    /// How many releases of dropped guards are not answered yet.
    pub(crate) fn pending_releases(&self) -> usize {
        self.releases.load(Ordering::Acquire)
    }

    /// Completes when no release is pending.
    pub(crate) async fn all_released(&self) {
        super::release::all_answered(self).await;
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
        while !self.is_closing() {
            let due = self.queue().take_due(self.clock.now());
            self.look_at(due);
            self.sleep().await;
        }
    }

    /// Sleeps until the next look is due or something earlier is filed.
    async fn sleep(&self) {
        let next = self.queue().next().unwrap_or(i64::MAX);
        self.wakes_at.store(next, Ordering::Release);
        // Something may have been filed between reading the queue and saying when this wakes.
        if self.queue().next().unwrap_or(i64::MAX) < next {
            return;
        }
        let now = self.clock.now().parts().0;
        let pause = Duration::from_nanos(u64::try_from(next.saturating_sub(now)).unwrap_or(0));
        tokio::select! {
            () = self.wake.notified() => {}
            () = tokio::time::sleep(pause.min(MAX_SLEEP)), if next < i64::MAX => {}
        }
    }

    fn look_at(self: &Arc<Self>, due: Vec<Arc<Hold>>) {
        let mut batch = Vec::new();
        for hold in due {
            if hold.loss().is_some() || hold.has_ended() {
                continue;
            }
            // Until the renewal is answered, the deadline is what is left to watch.
            self.file(&hold, last_look(&hold));
            if hold.terms.renew && !hold.renewal_in_flight.swap(true, Ordering::AcqRel) {
                batch.push(hold);
            }
        }
        for part in batch.chunks(MAX_BATCH) {
            // Each part has a task of its own: a store that hangs must not keep the loop from telling losses.
            tokio::spawn(Arc::clone(self).renew(part.to_vec()));
        }
    }

    async fn renew(self: Arc<Self>, holds: Vec<Arc<Hold>>) {
        let batch: Vec<_> = holds.iter().map(|hold| Renew { claim: &hold.claim, ttl: hold.ttl() }).collect();
        let answers = self.backend.renew_dyn(&batch).await;
        debug_assert_eq!(answers.len(), holds.len(), "one answer each");
        let ttls: Vec<_> = batch.iter().map(|renew| renew.ttl).collect();
        for ((hold, ttl), answer) in holds.iter().zip(ttls).zip(answers) {
            self.answered(hold, ttl, answer);
        }
    }

    fn answered(&self, hold: &Arc<Hold>, ttl: Duration, answer: Renewal) {
        hold.renewal_in_flight.store(false, Ordering::Release);
        if hold.has_ended() {
            return;
        }
        match answer {
            Renewal::Renewed { sent } => {
                hold.renewed(sent, ttl);
                self.file(hold, within_limits(hold, Due::renewal(sent, ttl, fastrand::f64())));
            }
            Renewal::NotMine => {
                hold.lose(LossReason::Taken);
            }
            Renewal::Unknown(error) => {
                if hold.endanger() {
                    tracing::warn!(parent: &hold.span, lock.key = %hold.claim.key, %error,
                        left = ?hold.remaining(), "renewal not answered, trying again within the lease");
                }
                self.file(hold, within_limits(hold, Due::retry(self.clock.now(), ttl)));
            }
        }
    }
}

/// The look at which the grant is lost, unless renewed by then.
fn last_look(hold: &Hold) -> Due {
    let end = Due::at(hold.deadline());
    hold.max_hold_end().map_or(end, |limit| end.no_later_than(limit))
}

fn within_limits(hold: &Hold, due: Due) -> Due {
    let due = due.no_later_than(hold.deadline());
    hold.max_hold_end().map_or(due, |limit| due.no_later_than(limit))
}
