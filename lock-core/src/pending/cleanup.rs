//! Releases claims in the background: grants of dropped guards, and possible grants of cancelled requests.

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
use crate::error::{LockError, LockErrorKind};
use crate::expiry;
use crate::key::Key;
use crate::observe::ReleaseContext;
use crate::owner::Owner;
use crate::store::Store;
use crate::sync::{Notify, survives, survives_polls};

/// How certain it is that the store has a grant for a claim that is being released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// The store has granted the claim, so one answered release is enough.
    Granted,
    /// The claim's request was not answered. The request may take effect after the first release, so the release is
    /// repeated until a release frees a grant.
    Maybe,
    /// The claim's request was not answered, and its owner has earlier grants. A release may have freed only the
    /// earlier grants, and the request may take effect later. So no answer ends the repetition early.
    MaybeAgain,
}

/// Receives notifications of keys that were released in the background.
pub(crate) trait FreedKeys: Send + Sync {
    /// Notifies the waiters that `owner` no longer has the key, or that the release was given up without an answer. In
    /// both cases a waiter in this process must send a request.
    fn freed(&self, key: &Key, owner: Owner);
}

/// Releases claims in the background.
pub(crate) struct Cleanup {
    pub(crate) store: Store,
    pub(crate) capability: Capability,
    pub(crate) clock: Clock,
    pub(crate) background: Arc<Background>,
    /// The waiters of this process. The reference is weak, because the waiters have claims and grants that refer to
    /// this value.
    waiters: Weak<dyn FreedKeys>,
    /// The unanswered releases of each key. The next acquisition of a key waits for its releases.
    pub(crate) under_way: Arc<ReleasesUnderWay>,
    /// The number of releases under way.
    pending: AtomicUsize,
    /// Notified when the last release under way is answered.
    settled: Notify,
    permits: Semaphore,
    /// Whether the manager is shutting down. If so, answered releases are no longer repeated.
    hurrying: AtomicBool,
    hurry: Notify,
}

/// The pauses before each repetition of an answered release, while an earlier request of the claim may still take
/// effect. A request on an older connection usually arrives within milliseconds. After a stopped server or a network
/// partition, it arrives later.
const REPEATS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(900), Duration::from_secs(5)];

/// The minimum time for which the release of a short lease is repeated.
const SHORTEST_REPEAT: Duration = Duration::from_millis(1_500);

/// The maximum number of releases under way at the same time.
const AT_ONCE: usize = 256;

/// The pauses between the attempts of a release that gets no answer.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(20), Duration::from_secs(1));

impl std::fmt::Debug for Cleanup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cleanup").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

impl Cleanup {
    pub(crate) fn new(store: Store, background: Arc<Background>, waiters: Weak<dyn FreedKeys>) -> Arc<Self> {
        let capability = store.backend.capability_dyn();
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

    /// Returns whether all grants of this process belong to one session with the store. Such grants do not expire.
    pub(crate) fn has_session(&self) -> bool {
        self.capability.lease == LeaseScope::Session
    }

    /// Releases a claim like [`release_as`](Self::release_as), without a `min_hold` and without a context for the log.
    pub(crate) fn release(
        self: &Arc<Self>,
        claim: &Claim,
        certainty: Certainty,
        until: Moment,
        begun: Option<ReleaseUnderWay>,
    ) {
        self.release_as(claim, None, certainty, until, begun, ReleaseContext::default());
    }

    /// Releases a claim in the background. This function never blocks and never panics. It can be called from anywhere,
    /// even outside of a runtime and during unwinding.
    ///
    /// `keep_until` is the end of the claim's `min_hold`. After `until` the claim has expired at the store, if it does
    /// not belong to a session. `begun` is the record of the release, if the release has already begun.
    pub(crate) fn release_as(
        self: &Arc<Self>,
        claim: &Claim,
        keep_until: Option<Moment>,
        certainty: Certainty,
        until: Moment,
        begun: Option<ReleaseUnderWay>,
        context: ReleaseContext,
    ) {
        // If the claim's request was sent twice and the grant of one copy is released, the other copy may still be
        // under way.
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

    /// Repeats the release of a claim in the background. The first release was answered, but an earlier request of the
    /// claim may still be granted. No acquisition waits for this release, because the key is free.
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

    /// Releases the grant of a lost lease when `not_before` is reached, the end of the lease at the store. An earlier
    /// release could admit another owner before the body has noticed the loss of the lock. This is needed for grants of
    /// a session, which do not expire.
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

    fn start(self: &Arc<Self>, release: PendingRelease) {
        // The release is counted before the first poll. Otherwise a shutdown could miss it.
        let (counted, claim) = (self.count(), release.claim.clone());
        let mut running = Box::pin(async move { counted.0.run(release).await });
        // The first poll happens here, because a store in this process answers at once, even if all runtimes have
        // ended.
        if self.capability.placement == Placement::Embedded && poll_once(running.as_mut()).is_ready() {
            return;
        }
        // The task runs on the background runtime. `tokio::spawn` would panic outside of a runtime. If the thread is
        // already unwinding, this panic would abort the process.
        match self.background.runtime() {
            Some(runtime) => drop(runtime.spawn(running)),
            None => {
                tracing::error!("no runtime for a release: the key stays until the store's lease is over");
                // No other call will notify the head of the local queue that the holder has released the key.
                self.freed(&claim);
            }
        }
    }

    /// Counts one release as pending until the returned value is dropped. A shutdown waits for pending releases.
    pub(crate) fn count(self: &Arc<Self>) -> Counted {
        Counted::new(self)
    }

    /// Returns the number of unanswered releases.
    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    /// Completes when no release is pending.
    pub(crate) async fn settled(&self) {
        self.settled.until(|| (self.pending() == 0).then_some(())).await;
    }

    /// Stops the repetition of answered releases. A shutdown calls this, because it waits for all releases.
    pub(crate) fn hurry(&self) {
        // The flag is set before the notification. A release that is about to sleep registers first and then reads the
        // flag, so it cannot miss the shutdown.
        self.hurrying.store(true, Ordering::Release);
        self.hurry.notify_waiters();
    }

    pub(crate) fn is_hurrying(&self) -> bool {
        self.hurrying.load(Ordering::Acquire)
    }

    /// Notifies the waiters of this process. Call this after the store has answered. Before that, the request of a
    /// waiter would still find the key held.
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
        // The waiters are notified even without an answer. In that case the grant has expired or the store is closed,
        // and the waiters must send a request.
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
                // The claim's request took effect late. A waiter may have found that this process holds the key, and
                // may wait for a hand-off.
                self.freed(&release.claim);
            }
        }
    }

    /// Sleeps for `pause`, or until the manager shuts down.
    async fn sleep(&self, pause: Duration) {
        // The task yields first, because its first poll may happen outside of tokio, where no timer exists.
        tokio::task::yield_now().await;
        let hurry = self.hurry.until(|| self.is_hurrying().then_some(()));
        let _ = tokio::time::timeout(pause, hurry).await;
    }

    /// Repeats the release until the store answers. Returns `None` if the grant has expired, or the store is closed.
    async fn until_answered(&self, release: &PendingRelease) -> Option<Released> {
        let mut pauses = PAUSES;
        loop {
            // The permit is dropped before the pause, so that a release in its pause does not block others.
            let answer = {
                // Permits limit the number of releases at the same time. Otherwise thousands of releases could occupy
                // the connection while the store hangs.
                let _permit = self.permits.acquire().await;
                // The rest of `min_hold` is calculated for each attempt, because `min_hold` counts from the grant and
                // not from the release.
                let keep_for = release.keep_until.and_then(|end| expiry::left(end, self.clock.now()));
                // The application's log and metrics run inside this call, and may panic. Only this task releases the
                // key, so it must survive such a panic.
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
                        // Only a grant that certainly existed is reported. Other claims may never have had one.
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

/// Polls a future once. The poll ignores tokio's cooperative budget, which the calling task may have used up.
fn poll_once(future: Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
    pin!(unconstrained(future)).poll(&mut Context::from_waker(Waker::noop()))
}

/// A claim that is released in the background.
struct PendingRelease {
    claim: Claim,
    /// The end of the claim's `min_hold`.
    keep_until: Option<Moment>,
    certainty: Certainty,
    /// The release starts at this time, or when the manager shuts down.
    not_before: Option<Moment>,
    /// When the claim expires at the store. `None` stands for a claim that does not expire. The release of such a claim
    /// is repeated until it is answered.
    until: Option<Moment>,
    /// While this exists, the next acquisition of the keys waits. It is dropped at the first answer.
    under_way: Option<ReleaseUnderWay>,
    /// The description of the claim, for the log.
    context: ReleaseContext,
}

/// Counts one release as pending. When this value is dropped, the release is no longer pending. This also works if the
/// task of the release is dropped with its runtime.
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
