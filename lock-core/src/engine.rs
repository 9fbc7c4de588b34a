//! Defines the state that the requests, guards and handles of one manager share.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::backend::{Capability, Claim, Released};
use crate::background::{Background, Inside};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, LossReason, Result};
use crate::expiry;
use crate::local_queue::LocalQueue;
use crate::notifications::{Latches, LostOwners, Notifications};
use crate::observe::Observer;
use crate::options::Profiles;
use crate::owner::{Identity, OwnerSource};
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
    pub(crate) identity: Arc<Identity>,
    pub(crate) namespace: String,
    pub(crate) profiles: Profiles,
    pub(crate) rates: Rates,
    pub(crate) observer: Arc<Observer>,
    /// The number of grants in use.
    held: AtomicUsize,
    /// The number of acquisitions in progress.
    acquiring: AtomicUsize,
    /// Notifies tasks in three cases: the manager closes, a grant or an acquisition ends while the manager closes, or
    /// the store has lost notifications. The local queue notifies its own waiters.
    pub(crate) changed: Notify,
    closing: AtomicBool,
    /// The number of reports that notifications were lost. If a waiter sent its last request before the last report, it
    /// must send another request.
    reconnects: AtomicU64,
    pub(crate) lost: LostOwners,
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
        identity: Arc<Identity>,
        namespace: String,
        profiles: Profiles,
        background: Arc<Background>,
    ) -> Result<Arc<Self>> {
        let capability = store.backend.capability_dyn();
        let owners = OwnerSource::new().map_err(|error| {
            let what = "the operating system returned no random bytes for owner tokens";
            LockError::new(LockErrorKind::Unavailable, what).nothing_taken().with_source(error)
        })?;
        let local_queue = Arc::new(LocalQueue::new(&capability));
        // The engine owns the local queue, so `Cleanup` needs only a weak reference to it.
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

    /// Returns whether a lease that ends at `store_until` would outlast a renewal for `ttl`. If the grants of the store
    /// belong to one session, the result is always `false`.
    pub(crate) fn outlasts(&self, store_until: Moment, ttl: Duration, now: Moment) -> bool {
        !self.cleanup.has_session() && expiry::outlasts(store_until, ttl, now)
    }

    /// Records that the lease of `claim` has ended and that the store no longer has its grant. Such a grant must not be
    /// handed off.
    pub(crate) fn grant_is_gone(&self, claim: &Claim) {
        self.lost.note(&[claim.owner], LossReason::Taken);
        self.local_queue.lose_lingering(&claim.key, claim.owner);
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        // The flag is set first, because waiters and repeated releases that wake up here read the flag, and then give
        // up.
        self.cleanup.hurry();
        self.wake_waiters();
    }

    /// Wakes every waiter, so that each one checks whether it may continue.
    fn wake_waiters(&self) {
        // If a waker of the application panics, the other waiters of `changed` wake up later, when their timers fire.
        // The waiters of the local queue are still woken here.
        self.changed.notify_waiters();
        self.local_queue.wake_all();
    }

    /// Returns how often the store has lost notifications so far. Read this number before a request is sent. If the
    /// number changes later, the waiter must send another request.
    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Acquire)
    }

    /// Records that the store has lost notifications, and wakes every waiter.
    pub(crate) fn reconnected(&self) {
        // The number is increased first, because a woken waiter compares it.
        self.reconnects.fetch_add(1, Ordering::AcqRel);
        self.wake_waiters();
        self.latches.wake_all();
    }

    pub(crate) fn lease_began(&self) {
        self.held.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn lease_ended(&self) {
        // The count must change before `closing` is read, as in `begin_acquiring`.
        self.held.fetch_sub(1, Ordering::SeqCst);
        // Only a shutdown waits for grants to end. Without this condition, each release would wake every waiter of the
        // manager.
        if self.closing.load(Ordering::SeqCst) {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// Counts an acquisition until the returned value is dropped. Call this before the check that the manager is open,
    /// so that a shutdown waits for every acquisition.
    pub(crate) fn begin_acquiring(&self) -> Acquiring<'_> {
        // The count must change before `closing` is read. So either this acquisition sees the flag, or the shutdown
        // sees the count.
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

    /// Releases a grant, and waits for the answer. The caller must have registered the pending release. That
    /// registration also covers a retry in the background.
    pub(crate) async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        let answer = self.store.release(claim, keep_for).await;
        // The local queue is notified after an error too. The store may have freed the key, and nothing else notifies
        // the first waiter of the local queue.
        claim.keys().for_each(|key| self.local_queue.freed(key, claim.owner));
        // If the request of the claim was sent twice, its second copy may be granted after this release.
        if answer.is_ok() && claim.is_resent() {
            self.cleanup.release_again(claim, self.clock.now().plus(claim.ttl));
        }
        answer
    }
}

impl Engine {
    /// Runs `call` to its end inside a tokio runtime, even if another executor polls this future. Public methods use
    /// this function if they neither acquire a lock nor run a body.
    pub(crate) fn inside<F: Future>(&self, call: F) -> Inside<'_, F> {
        self.cleanup.background.inside(call)
    }

    /// Sleeps for `pause`, or until the manager closes or the store reconnects.
    pub(crate) async fn sleep(&self, pause: Duration) -> Result<()> {
        let mut changed = std::pin::pin!(self.changed.notified());
        // Register before the check. Otherwise a change between the two steps would be missed.
        changed.as_mut().enable();
        self.check_open()?;
        tokio::select! {
            // `biased` keeps the simulation deterministic.
            biased;
            () = changed => self.check_open(),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// Waits until no lock is held, no acquisition is in progress and no release is pending.
    pub(crate) async fn idle(&self) {
        // Check `acquiring` first, because an acquisition creates its lease before it stops counting as an acquisition.
        self.changed.until(|| (self.acquiring() == 0 && self.held() == 0).then_some(())).await;
        // Wait for releases last, because a guard that is dropped in the meantime causes another release.
        self.cleanup.settled().await;
    }

    /// Waits until no acquisition is in progress and no release is pending.
    pub(crate) async fn settled(&self) {
        self.changed.until(|| (self.acquiring() == 0).then_some(())).await;
        // Wait for releases last, because an acquisition that fails may add a release.
        self.cleanup.settled().await;
    }
}

/// Represents an acquisition in progress.
#[derive(Debug)]
pub(crate) struct Acquiring<'a>(&'a Engine);

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        // The count is decreased before the flag is read, and a shutdown sets the flag before it reads the count. So
        // the shutdown either reads the new count or is notified.
        self.0.acquiring.fetch_sub(1, Ordering::SeqCst);
        if self.0.closing.load(Ordering::SeqCst) {
            self.0.changed.notify_waiters();
        }
    }
}
