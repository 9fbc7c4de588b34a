//! Defines the state that the requests, guards and handles of one manager share.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::backend::{Capability, Claim, Released};
use crate::background::Background;
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, LossReason, Result};
use crate::expiry;
use crate::local_queue::LocalQueue;
use crate::notifications::{Latches, LostOwners, Notifications};
use crate::observe::Observer;
use crate::options::{Profiles, Resolved};
use crate::owner::{Identity, Owner, OwnerSource};
use crate::pending::{Cleanup, FreedKeys};
use crate::rates::Rates;
use crate::store::Store;
use crate::sync::Notify;

/// The shared state of one manager.
pub(crate) struct Engine {
    pub(crate) store: Store,
    pub(crate) cleanup: Arc<Cleanup>,
    pub(crate) capability: Capability,
    pub(crate) clock: Clock,
    pub(crate) local_queue: Arc<LocalQueue>,
    pub(crate) notifications: Arc<Notifications>,
    pub(crate) latches: Latches,
    pub(crate) owners: OwnerSource,
    pub(crate) identity: &'static Identity,
    pub(crate) namespace: String,
    pub(crate) profiles: Profiles,
    /// The options of a request that sets none itself.
    pub(crate) defaults: Resolved,
    pub(crate) rates: Rates,
    pub(crate) observer: Arc<Observer>,
    /// The number of grants in use.
    held: AtomicUsize,
    /// The number of acquisitions in progress.
    acquiring: AtomicUsize,
    /// Notified in three cases: when the manager closes, when a grant ends while the manager closes, and when the store
    /// has lost notifications. The local queue notifies its own waiters.
    pub(crate) changed: Notify,
    closing: AtomicBool,
    /// How often the store has reported lost notifications. A waiter whose last request was sent before the last report
    /// sends another request.
    reconnects: AtomicU64,
    lost: LostOwners,
}

/// The output is short, because the `Debug` output of every guard and request contains it.
impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("store", &self.capability.store)
            .field("namespace", &self.namespace)
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn new(
        store: Store,
        observer: Arc<Observer>,
        identity: &'static Identity,
        namespace: String,
        profiles: Profiles,
        background: Arc<Background>,
    ) -> Result<Arc<Self>> {
        let capability = store.capability();
        let owners = OwnerSource::new().map_err(|error| {
            let what = "the operating system returned no random bytes for owner tokens";
            LockError::new(LockErrorKind::Unavailable, what).nothing_taken().with_source(error)
        })?;
        let local_queue = Arc::new(LocalQueue::new(&capability));
        // The clean-up has only a weak reference to the local queue, which the engine keeps alive.
        let waiters: Arc<dyn FreedKeys> = Arc::<LocalQueue>::clone(&local_queue);
        let cleanup = Cleanup::new(store.clone(), background, Arc::downgrade(&waiters));
        Ok(Arc::new(Self {
            observer,
            capability,
            clock: capability.placement.clock(),
            cleanup,
            local_queue,
            notifications: Arc::default(),
            latches: Latches::default(),
            owners,
            namespace,
            defaults: Resolved::of_defaults(&profiles.defaults, &capability)?,
            profiles,
            rates: Rates::default(),
            held: AtomicUsize::new(0),
            acquiring: AtomicUsize::new(0),
            changed: Notify::new(),
            closing: AtomicBool::new(false),
            reconnects: AtomicU64::new(0),
            lost: LostOwners::default(),
            identity,
            store,
        }))
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(LockError::new(LockErrorKind::ShuttingDown, "shutdown was called"));
        }
        Ok(())
    }

    /// Returns whether the store keeps a lease that ends at `store_until` for longer than a renewal for `ttl` would. In
    /// a store whose grants all belong to one session, the result is always `false`.
    pub(crate) fn outlasts(&self, store_until: Moment, ttl: Duration, now: Moment) -> bool {
        !self.cleanup.has_session() && expiry::outlasts(store_until, ttl, now)
    }

    /// Returns why the store recently reported the grant of `owner` as lost, or `None`. Code that makes a lease for a
    /// grant must check this once more afterwards.
    pub(crate) fn reported_lost(&self, owner: Owner) -> Option<LossReason> {
        self.lost.reason(owner)
    }

    /// Records that the store reported the grants of `owners` as lost.
    pub(crate) fn note_lost(&self, owners: &[Owner], reason: LossReason) {
        self.lost.note(owners, reason);
    }

    /// Records that the store no longer has the grant of `claim`, whose lease has ended. The grant must then not be
    /// handed off.
    pub(crate) fn grant_is_gone(&self, claim: &Claim) {
        self.note_lost(&[claim.owner], LossReason::Taken);
        self.local_queue.lose_lingering(&claim.key, claim.owner);
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        // These steps come after the flag is set. Notified waiters and repeated releases read the flag, and give up.
        self.cleanup.hurry();
        self.wake_waiters();
    }

    /// Wakes every waiter, so that it checks whether it may continue.
    fn wake_waiters(&self) {
        // If a waker of the application panics, the remaining waiters of `changed` check only when their timer fires.
        // The waiters of the local queue are still woken.
        self.changed.notify_waiters();
        self.local_queue.wake_all();
    }

    /// Returns how often the store has lost notifications so far. Read this before you send a request: a waiter whose
    /// request is older than the last loss must send another one.
    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Acquire)
    }

    /// Records that the store has lost notifications, and wakes every waiter.
    pub(crate) fn reconnected(&self) {
        // The count comes first, because a woken waiter compares it.
        self.reconnects.fetch_add(1, Ordering::AcqRel);
        self.wake_waiters();
        self.latches.wake_all();
    }

    pub(crate) fn lease_began(&self) {
        self.held.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn lease_ended(&self) {
        // The order relative to `closing` matters, as in `begin_acquiring`.
        self.held.fetch_sub(1, Ordering::SeqCst);
        // Only a shutdown waits for the end of a grant. Without this condition, each release would wake every waiter of
        // the manager.
        if self.closing.load(Ordering::SeqCst) {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// Counts an acquisition for as long as the returned value lives. Call this before you check that the manager is
    /// open, so that a shutdown misses no acquisition.
    pub(crate) fn begin_acquiring(&self) -> Acquiring<'_> {
        // The order relative to `closing` matters: either this acquisition sees the flag, or the shutdown sees the
        // count.
        self.acquiring.fetch_add(1, Ordering::SeqCst);
        Acquiring(self)
    }

    pub(crate) fn acquiring(&self) -> usize {
        self.acquiring.load(Ordering::SeqCst)
    }

    /// Returns whether this manager may still send commands to the store.
    pub(crate) fn is_busy(&self) -> bool {
        self.acquiring() > 0 || self.cleanup.pending() > 0
    }

    /// Releases a grant, and waits for the answer. The caller must have recorded that the release is under way. That
    /// record also covers a repetition by the background.
    pub(crate) async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        let answer = self.store.release(claim, keep_for).await;
        // This happens after an error too. The store may have freed the key, and only this call notifies the head of
        // the local queue.
        self.freed_by(claim);
        if answer.is_ok() {
            self.release_again(claim);
        }
        answer
    }

    /// Repeats the release of a claim whose request was sent twice. The second copy of the request may reach the store
    /// after the first release, and be granted.
    fn release_again(&self, claim: &Claim) {
        if claim.is_resent() {
            let until = self.clock.now().plus(claim.ttl);
            self.cleanup.release_again(claim, until);
        }
    }

    /// Notifies the local queue that a release of `claim` was sent to the store.
    fn freed_by(&self, claim: &Claim) {
        claim.keys().for_each(|key| self.local_queue.freed(key, claim.owner));
    }
}

impl Engine {
    /// Runs `call` to its end. `call` is polled inside tokio, regardless of the executor that polls this future. Every
    /// method of the public interface that neither acquires a lock nor runs a body uses this.
    pub(crate) async fn inside<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.cleanup.inside(call).await?
    }

    /// Sleeps for `pause`, or until the manager closes or the store reconnects.
    pub(crate) async fn sleep(&self, pause: Duration) -> Result<()> {
        let mut changed = std::pin::pin!(self.changed.notified());
        // The waiter registers before the check, here and below. Otherwise it would miss a change between the two
        // steps.
        changed.as_mut().enable();
        self.check_open()?;
        tokio::select! {
            // `biased` keeps the simulation deterministic.
            biased;
            () = changed => self.check_open(),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// Completes when no lock is held, no acquisition is under way and no release is pending.
    pub(crate) async fn idle(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            // The order matters: an acquisition creates its lease before it stops counting as an acquisition.
            if self.acquiring() == 0 && self.held() == 0 {
                break;
            }
            changed.await;
        }
        // The releases come last, because a dropped guard causes a release, which must be awaited too.
        self.cleanup.settled().await;
    }

    /// Completes when no acquisition is under way and no release is pending.
    pub(crate) async fn settled(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.acquiring() == 0 {
                break;
            }
            changed.await;
        }
        // The releases come last, because an acquisition that ends may roll back, which adds a release.
        self.cleanup.settled().await;
    }
}

/// An acquisition in progress.
#[derive(Debug)]
pub(crate) struct Acquiring<'a>(&'a Engine);

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        // The count is lowered before the flag is read, and `close` does the reverse. So a shutdown either reads the
        // new count or is notified.
        self.0.acquiring.fetch_sub(1, Ordering::SeqCst);
        if self.0.closing.load(Ordering::SeqCst) {
            self.0.changed.notify_waiters();
        }
    }
}
