//! Releases in the background: grants of dropped guards, and possible grants of cancelled acquires.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::unconstrained;

use super::under_way::{ReleaseUnderWay, ReleasesUnderWay};
use crate::backend::{Capability, Claim, LeaseScope, Placement, Released};
use crate::background::Background;
use crate::backoff::Pauses;
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, Result};
use crate::expiry;
use crate::key::Key;
use crate::observe::ReleaseContext;
use crate::owner::Owner;
use crate::store::Store;
use crate::sync::{Notify, survives, survives_polls};

/// How certain the grant of a released claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// The store has granted it: one answered release ends it.
    Granted,
    /// The request was sent and not answered: it may take effect after the first release, so releases are repeated
    /// until one has freed a grant.
    Maybe,
    /// The same for an owner with earlier grants. A release may have freed those, and the request may arrive after it,
    /// so no answer ends the repetition early.
    MaybeAgain,
}

/// Is notified when a key was released in the background.
pub(crate) trait FreedKeys: Send + Sync {
    /// The key no longer belongs to `owner`, or this is the last notification about it: a waiter in this process must
    /// ask the store.
    fn freed(&self, key: &Key, owner: Owner);
}

/// Releases claims in the background.
pub(crate) struct Cleanup {
    pub(crate) store: Store,
    pub(crate) capability: Capability,
    pub(crate) clock: Clock,
    background: Arc<Background>,
    /// The waiters of this process. The reference is weak, because the waiters keep claims and grants that are released
    /// here.
    waiters: Weak<dyn FreedKeys>,
    /// All unanswered releases, by key: the next acquisition of a key waits for them.
    pub(crate) under_way: Arc<ReleasesUnderWay>,
    /// Releases under way.
    pending: AtomicUsize,
    /// Notified when the last of them is answered.
    settled: Notify,
    permits: Semaphore,
    /// Whether the manager ends: then answered releases are no longer repeated.
    hurrying: AtomicBool,
    hurry: Notify,
}

/// When a release is repeated after an answer that did not settle it. A request that is still under way on an older
/// connection usually arrives within milliseconds; a server that was stopped, or a partition that heals, takes longer.
const REPEATS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(900), Duration::from_secs(5)];

/// The shortest time for which the release of a short lease is repeated.
const SHORTEST_REPEAT: Duration = Duration::from_millis(1_500);

/// How many releases are under way at the same time.
const AT_ONCE: usize = 256;

/// Pauses between tries that are not answered.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(20), Duration::from_secs(1));

impl std::fmt::Debug for Cleanup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cleanup").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

impl Cleanup {
    pub(crate) fn new(store: Store, background: Arc<Background>, waiters: Weak<dyn FreedKeys>) -> Arc<Self> {
        let capability = store.capability();
        Arc::new(Self {
            store,
            capability,
            clock: capability.placement.clock(),
            background,
            waiters,
            under_way: Arc::default(),
            pending: AtomicUsize::new(0),
            settled: Notify::new(),
            permits: Semaphore::new(AT_ONCE),
            hurrying: AtomicBool::new(false),
            hurry: Notify::new(),
        })
    }

    /// Returns whether the grants of this process live in one session with the store, so that none of them expires.
    pub(crate) fn has_session(&self) -> bool {
        self.capability.lease == LeaseScope::Session
    }

    /// Releases a claim that no caller has held. See [`release_as`](Self::release_as).
    pub(crate) fn release(
        self: &Arc<Self>,
        claim: &Claim,
        certainty: Certainty,
        until: Moment,
        begun: Option<ReleaseUnderWay>,
    ) {
        self.release_as(claim, None, certainty, until, begun, ReleaseContext::default());
    }

    /// Releases a claim in the background. Never blocks and never panics; callable from anywhere, even outside a
    /// runtime and while unwinding.
    ///
    /// `keep_until` is the end of its `min_hold`. From `until` on the claim has expired at the store, unless it lives in a
    /// session. `begun` is the release, if it has begun before.
    pub(crate) fn release_as(
        self: &Arc<Self>,
        claim: &Claim,
        keep_until: Option<Moment>,
        certainty: Certainty,
        until: Moment,
        begun: Option<ReleaseUnderWay>,
        context: ReleaseContext,
    ) {
        // If the grant of one of two requests is released, the other request may still be under way.
        let certainty = if claim.is_resent() { Certainty::MaybeAgain } else { certainty };
        // A session keeps its grants until they are released, so the release is repeated until it is answered.
        let until = Some(until).filter(|_| !self.has_session());
        let under_way = begun.unwrap_or_else(|| self.under_way.add(claim, self.clock.now()));
        self.start(PendingRelease {
            claim: claim.clone(),
            keep_until,
            certainty,
            not_before: None,
            until,
            under_way: Some(under_way),
            context,
        });
    }

    /// Releases a claim again in the background: its release was answered, and an earlier request may still be granted. No
    /// acquisition waits for this release: the key is free.
    pub(crate) fn release_again(self: &Arc<Self>, claim: &Claim, until: Moment) {
        self.start(PendingRelease {
            claim: claim.clone(),
            keep_until: None,
            certainty: Certainty::MaybeAgain,
            not_before: None,
            until: Some(until).filter(|_| !self.has_session()),
            under_way: None,
            context: ReleaseContext::default(),
        });
    }

    /// Releases the grant of a lost lease after the time that the lease would have lasted: until then the body may not
    /// know that the lock is lost. This is for a session, whose grants do not expire.
    pub(crate) fn release_later(
        self: &Arc<Self>,
        claim: &Claim,
        keep_until: Option<Moment>,
        not_before: Moment,
        context: ReleaseContext,
    ) {
        self.start(PendingRelease {
            claim: claim.clone(),
            keep_until,
            certainty: Certainty::Granted,
            not_before: Some(not_before),
            until: None,
            under_way: None,
            context,
        });
    }

    /// Returns the runtime of the background; `None` if it has ended.
    pub(crate) fn runtime(&self) -> Option<tokio::runtime::Handle> {
        self.background.runtime()
    }

    /// Completes with `call`, which is polled inside tokio, whatever executor polls this. See [`Background::inside`].
    pub(crate) async fn inside<F: Future>(&self, call: F) -> Result<F::Output> {
        self.background.inside(call).await
    }

    fn start(self: &Arc<Self>, release: PendingRelease) {
        // The release is counted before the first poll, or a shutdown would not wait for it.
        let (counted, claim) = (self.count(), release.claim.clone());
        let mut running = Box::pin(async move { counted.0.run(release).await });
        // A store in this process answers at once, even if all runtimes have ended.
        if self.capability.placement == Placement::Embedded && poll_once(running.as_mut()).is_ready() {
            return;
        }
        // The task runs on a runtime of the library, and is never spawned with `tokio::spawn`, which panics outside a
        // runtime. While a thread unwinds, that panic would abort the process.
        match self.background.runtime() {
            Some(runtime) => drop(runtime.spawn(running)),
            None => {
                tracing::error!("no runtime for a release: the key stays until the store's lease is over");
                // Only this notifies the head of the local queue that the holder has released.
                self.freed(&claim);
            }
        }
    }

    /// Counts one release for as long as the returned value lives: a shutdown waits for it.
    pub(crate) fn count(self: &Arc<Self>) -> Counted {
        Counted::new(self)
    }

    /// Returns how many releases are not answered yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    /// Completes when no release is pending.
    pub(crate) async fn settled(&self) {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            // The waiter registers before the count is read: the last release notifies only registered waiters.
            settled.as_mut().enable();
            if self.pending() == 0 {
                return;
            }
            settled.await;
        }
    }

    /// Stops the repetition of answered releases: a shutdown waits for the last of them.
    pub(crate) fn hurry(&self) {
        // The flag is stored before the notification: a release that begins to sleep now reads it after it has
        // registered.
        self.hurrying.store(true, Ordering::Release);
        self.hurry.notify_waiters();
    }

    pub(crate) fn is_hurrying(&self) -> bool {
        self.hurrying.load(Ordering::Acquire)
    }

    /// Notifies the waiters of this process. This is called when the store has answered: before that a request would
    /// still find the key held.
    fn freed(&self, claim: &Claim) {
        if let Some(waiters) = self.waiters.upgrade() {
            for key in claim.keys() {
                survives(|| waiters.freed(key, claim.owner));
            }
        }
    }

    async fn run(&self, mut release: PendingRelease) {
        if let Some(time) = release.not_before {
            self.sleep(time.remaining(self.clock.now())).await;
        }
        let first = self.until_answered(&release).await;
        release.under_way = None;
        // This is done without an answer too: the grant has expired by now, or the store is closed, and the waiters
        // must find out.
        self.freed(&release.claim);
        let Some(mut answer) = first else { return };
        let until = self.clock.now().plus(release.claim.ttl.max(SHORTEST_REPEAT));
        for pause in REPEATS {
            let settled = match release.certainty {
                Certainty::Granted => true,
                Certainty::Maybe => answer == Released::Released,
                Certainty::MaybeAgain => false,
            };
            if settled || self.is_hurrying() || until.remaining(self.clock.now()) < pause {
                return;
            }
            self.sleep(pause).await;
            let Some(next) = self.until_answered(&release).await else { return };
            answer = next;
            if answer == Released::Released {
                // The request had taken effect late, and the waiters of this process took its grant for that of a
                // holder here.
                self.freed(&release.claim);
            }
        }
    }

    /// Sleeps, unless the manager ends: the next release is then the last.
    async fn sleep(&self, pause: Duration) {
        // The first poll may be outside of tokio, without a timer.
        tokio::task::yield_now().await;
        let mut hurry = std::pin::pin!(self.hurry.notified());
        // The waiter registers before the flag is read, as in `settled`.
        hurry.as_mut().enable();
        if !self.is_hurrying() {
            let _ = tokio::time::timeout(pause, hurry).await;
        }
    }

    /// Repeats the release until the store answers; `None` when the grant has expired, or the store is closed.
    async fn until_answered(&self, release: &PendingRelease) -> Option<Released> {
        let mut pauses = PAUSES;
        loop {
            // The permit is returned before the pause, so that releases that wait for their next try keep no others
            // back.
            let answer = {
                // While the store hangs, the releases must not use up the connection.
                let _permit = self.permits.acquire().await;
                // The rest is computed again for each try, because `min_hold` counts from the grant, however late its
                // release arrives.
                let keep_for = release.keep_until.and_then(|end| expiry::left(end, self.clock.now()));
                // The log and the metrics of the application run within, and may panic. Only this task releases the
                // key.
                let answer = survives_polls(self.store.release(&release.claim, keep_for)).await;
                answer.unwrap_or_else(|| {
                    let what = "the log or the metrics of the application panicked";
                    Err(LockError::new(LockErrorKind::Unavailable, what))
                })
            };
            match answer {
                Ok(answer) => return Some(answer),
                // The connections are closed for good.
                Err(error) if error.kind() == LockErrorKind::ShuttingDown => return None,
                Err(error) => {
                    if release.until.is_some_and(|until| until.is_past(self.clock.now())) {
                        // For other claims it is unknown whether there was a grant, so they are not reported.
                        if release.certainty == Certainty::Granted {
                            survives(|| self.log_abandoned(release, &error));
                        }
                        return None;
                    }
                    survives(|| self.log_retry(release, &error));
                }
            }
            tokio::task::yield_now().await;
            tokio::time::sleep(pauses.next()).await;
        }
    }

    fn log_abandoned(&self, release: &PendingRelease, error: &LockError) {
        release.context.abandoned();
        let (template, observer) = (release.context.template(), self.store.observer());
        let (key, error) = (observer.redact_key(&release.claim.key, template), observer.redact_error(error));
        tracing::error!(lock.template = template, lock.key = %key, %error, "release not answered; the lease is over");
    }

    fn log_retry(&self, release: &PendingRelease, error: &LockError) {
        let (template, observer) = (release.context.template(), self.store.observer());
        let (key, error) = (observer.redact_key(&release.claim.key, template), observer.redact_error(error));
        tracing::debug!(lock.key = %key, %error, "release not answered, trying again");
    }
}

/// Polls a future once, outside of tokio's budget, which the calling task may have used up.
fn poll_once(future: Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
    pin!(unconstrained(future)).poll(&mut Context::from_waker(Waker::noop()))
}

/// A claim that is released in the background.
struct PendingRelease {
    claim: Claim,
    /// The end of its `min_hold`.
    keep_until: Option<Moment>,
    certainty: Certainty,
    /// The release waits until this time, unless the manager ends.
    not_before: Option<Moment>,
    /// When the claim has expired at the store. `None` if it does not expire: the release is repeated until it is
    /// answered.
    until: Option<Moment>,
    /// Keeps the next acquisition of the keys waiting until the first answer.
    under_way: Option<ReleaseUnderWay>,
    /// The description of the claim, for the log.
    context: ReleaseContext,
}

/// Counts one release for as long as it is under way, even if its task is dropped with its runtime.
#[derive(Debug)]
pub(crate) struct Counted(Arc<Cleanup>);

impl Counted {
    fn new(cleanup: &Arc<Cleanup>) -> Self {
        cleanup.pending.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(cleanup))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.0.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.settled.notify_waiters();
        }
    }
}
