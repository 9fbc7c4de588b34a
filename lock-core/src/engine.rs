//! What the guards, handles and requests of one manager share.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::{Capability, Claim, DynBackend, LeaseScope, Listener, Released};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, LossReason, Result};
use crate::expiry;
use crate::latch::Latches;
use crate::lease::{Certainty, Lease, LostOwners, PendingRelease, Renewers};
use crate::local_queue::LocalQueue;
use crate::notifications::Notifications;
use crate::observe::{Observer, ReleaseContext, Settings};
use crate::options::Profiles;
use crate::owner::{Identity, Owner, OwnerSource};
use crate::store::Store;

/// One manager's inside.
pub(crate) struct Engine {
    pub(crate) store: Store,
    pub(crate) capability: Capability,
    pub(crate) clock: Clock,
    pub(crate) renewers: Renewers,
    pub(crate) local_queue: Arc<LocalQueue>,
    pub(crate) notifications: Arc<Notifications>,
    pub(crate) latches: Latches,
    pub(crate) owners: OwnerSource,
    pub(crate) identity: Arc<Identity>,
    pub(crate) namespace: String,
    pub(crate) profiles: Profiles,
    pub(crate) observer: Arc<Observer>,
    /// Grants in use.
    held: AtomicUsize,
    /// Acquisitions under way.
    acquiring: AtomicUsize,
    /// Notified when a grant ends, when the manager closes, and when the store has lost notifications.
    pub(crate) changed: Notify,
    closing: AtomicBool,
    /// How often the store has said that notifications were lost: a waiter that asked before the last time asks again.
    reconnects: AtomicU64,
    lost: LostOwners,
}

/// What a reader of a log can use; every guard and request has it in its own.
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
        backend: Arc<dyn DynBackend>,
        namespace: String,
        service: &str,
        profiles: Profiles,
        told: Settings,
    ) -> Result<Arc<Self>> {
        let capability = backend.capability_dyn();
        let owners = OwnerSource::new().map_err(|error| {
            let what = "the operating system gives no random bytes for owner tokens";
            LockError::new(LockErrorKind::Unavailable, what).nothing_taken().with_source(error)
        })?;
        let process = owners.process();
        let local_queue = Arc::new(LocalQueue::new(&capability));
        let observer = Arc::new(Observer::new(told, capability.store, capability.placement.clock()));
        let store = Store::new(backend, Arc::clone(&observer));
        let engine = Arc::new(Self {
            observer,
            capability,
            clock: capability.placement.clock(),
            renewers: Renewers::new(store.clone(), Arc::clone(&local_queue))?,
            local_queue,
            notifications: Arc::default(),
            latches: Latches::default(),
            owners,
            identity: Arc::new(Identity::of_this_process(service)),
            namespace,
            profiles,
            held: AtomicUsize::new(0),
            acquiring: AtomicUsize::new(0),
            changed: Notify::new(),
            closing: AtomicBool::new(false),
            reconnects: AtomicU64::new(0),
            lost: LostOwners::default(),
            store,
        });
        let listener: Weak<Self> = Arc::downgrade(&engine);
        engine.store.attach(process, listener, engine.renewers.background().as_ref());
        Ok(engine)
    }

    /// Whether this is the process that made the manager. A forked child has its memory, but neither its threads nor
    /// its locks.
    pub(crate) fn is_own_process(&self) -> bool {
        self.identity.pid() == std::process::id()
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(LockError::new(LockErrorKind::ShuttingDown, "shutdown was called"));
        }
        Ok(())
    }

    /// Refuses a forked child, which has made no manager of its own.
    pub(crate) fn check_process(&self) -> Result<()> {
        if !self.is_own_process() {
            let what =
                "this process was forked from the one that made the manager: make a manager after the fork";
            return Err(LockError::new(LockErrorKind::InvalidRequest, what));
        }
        Ok(())
    }

    /// Whether the grants of this process live in one session with the store, so that none of them ends by itself.
    pub(crate) fn has_session(&self) -> bool {
        self.capability.lease == LeaseScope::Session
    }

    /// Whether a lease that the store has until `store_until` is longer than `ttl`, asked for now. Never where all grants
    /// live in one session.
    pub(crate) fn outlasts(&self, store_until: Moment, ttl: Duration, now: Moment) -> bool {
        !self.has_session() && expiry::outlasts(store_until, ttl, now)
    }

    /// Why the store lately reported the grant of `owner` as lost, if it did. Whoever makes a lease of it asks once more
    /// after that.
    pub(crate) fn reported_lost(&self, owner: Owner) -> Option<LossReason> {
        self.lost.reason(owner)
    }

    /// Ends the leases of `owners`, whose grants the store says are gone.
    fn all_lost(&self, owners: &[Owner], reason: LossReason) {
        // First: a grant that is on its way to its next holder has no lease yet.
        self.lost.note(owners, reason);
        let owners: HashSet<&Owner> = owners.iter().collect();
        for lease in self.leases().into_iter().filter(|lease| owners.contains(&lease.claim.owner)) {
            // Of several keys one may be lost, and the others must be free as well. A session takes all with it.
            if lease.lose(reason) && reason != LossReason::SessionEnded {
                self.release_in_background(&lease.claim, None, Certainty::Granted, lease.store_until());
            }
        }
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// How often the store has lost notifications so far. Read before a question is sent: a waiter whose question is
    /// older than the last loss asks again.
    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Acquire)
    }

    pub(crate) fn lease_began(&self) {
        self.held.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn lease_ended(&self) {
        self.held.fetch_sub(1, Ordering::AcqRel);
        if self.closing.load(Ordering::Acquire) {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// Counts an acquisition for as long as the value lives. Counted before it looks whether the manager is open, so
    /// that a shutdown misses none.
    pub(crate) fn begin_acquiring(&self) -> Acquiring<'_> {
        self.acquiring.fetch_add(1, Ordering::SeqCst);
        Acquiring(self)
    }

    pub(crate) fn acquiring(&self) -> usize {
        self.acquiring.load(Ordering::SeqCst)
    }

    /// Whether the store may yet hear from this manager.
    pub(crate) fn is_busy(&self) -> bool {
        self.acquiring() > 0 || self.pending_releases() > 0
    }

    pub(crate) fn pending_releases(&self) -> usize {
        self.renewers.all().iter().map(|renewer| renewer.pending_releases()).sum()
    }

    pub(crate) fn leases(&self) -> Vec<Arc<Lease>> {
        self.renewers.all().iter().flat_map(|renewer| renewer.leases()).collect()
    }

    /// Gives a grant back and waits for the answer.
    pub(crate) async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        let answer = match self.store.release_now(claim, keep_for) {
            Some(answer) => Ok(answer),
            None => self.store.release(claim, keep_for).await,
        };
        claim.keys().for_each(|key| self.local_queue.freed(key));
        if answer.is_ok() && claim.is_resent() {
            // What was freed may be the grant of one request; the other may arrive behind the release.
            self.release_in_background(claim, None, Certainty::MaybeAgain, self.clock.now().plus(claim.ttl));
        }
        answer
    }

    /// Gives a claim back in the background. Never blocks and never panics; does nothing in a forked child.
    ///
    /// `keep_until` is the end of its `min_hold`; from `until` on the store has forgotten it by itself, unless it lives in a
    /// session.
    pub(crate) fn release_in_background(
        &self,
        claim: &Claim,
        keep_until: Option<Moment>,
        certainty: Certainty,
        until: Moment,
    ) {
        self.hand_to_background(claim, keep_until, certainty, until, ReleaseContext::default);
    }

    /// Gives the grant of a hold back in the background.
    pub(crate) fn release_lease_in_background(&self, lease: &Lease) {
        let (claim, until) = (&lease.claim, lease.store_until());
        self.hand_to_background(claim, lease.keep_until(), Certainty::Granted, until, || {
            lease.recorder.release_context()
        });
    }

    /// Releases the grant of a lost lease in the background, at the time at which the store would have forgotten a lease of
    /// its own: until then the body may not know that the lock is lost. For a grant in a session, which forgets none.
    pub(crate) fn release_lost_in_background(&self, lease: &Lease) {
        if !self.is_own_process() {
            return;
        }
        self.renewers.release(PendingRelease {
            claim: lease.claim.clone(),
            keep_until: lease.keep_until(),
            certainty: Certainty::Granted,
            not_before: Some(lease.store_until()),
            until: None,
            context: lease.recorder.release_context(),
        });
    }

    fn hand_to_background(
        &self,
        claim: &Claim,
        keep_until: Option<Moment>,
        certainty: Certainty,
        until: Moment,
        context: impl FnOnce() -> ReleaseContext,
    ) {
        if !self.is_own_process() {
            return;
        }
        let keep_for = keep_until.and_then(|end| left(end, self.clock.now()));
        if self.store.release_now(claim, keep_for).is_some() {
            claim.keys().for_each(|key| self.local_queue.freed(key));
            return;
        }
        // Those who wait here are told when the store has answered: before that they would ask in vain.
        let (claim, context) = (claim.clone(), context());
        let certainty = if claim.is_resent() { Certainty::MaybeAgain } else { certainty };
        // A session keeps what it has until that is released, so there is no time from which on nobody need ask.
        let until = Some(until).filter(|_| !self.has_session());
        self.renewers.release(PendingRelease {
            claim,
            keep_until,
            certainty,
            not_before: None,
            until,
            context,
        });
    }
}

impl Engine {
    /// Sleeps for `pause`, or less where the manager closes or the store was reconnected.
    pub(crate) async fn sleep(&self, pause: Duration) -> Result<()> {
        let mut changed = std::pin::pin!(self.changed.notified());
        changed.as_mut().enable();
        self.check_open()?;
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = changed => self.check_open(),
        }
    }

    /// Completes when nothing is held and no release is pending.
    pub(crate) async fn idle(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.held() == 0 {
                break;
            }
            changed.await;
        }
        self.settled().await;
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
        self.released().await;
    }

    /// Completes when every release of a dropped guard is answered.
    pub(crate) async fn released(&self) {
        for renewer in self.renewers.all() {
            renewer.all_released().await;
        }
    }
}

/// What the store tells by itself reaches those whom it concerns.
impl Listener for Engine {
    fn granted(&self, owner: Owner, waiters: usize) {
        self.notifications.granted(owner, waiters);
    }

    fn contended(&self, key: &str) {
        self.local_queue.contended(key);
    }

    fn opened(&self, key: &str) {
        self.latches.opened(key);
    }

    fn lost(&self, owner: Owner, reason: LossReason) {
        self.all_lost(&[owner], reason);
    }

    fn session_ended(&self, owners: &[Owner]) {
        self.all_lost(owners, LossReason::SessionEnded);
    }

    fn keys_evicted(&self, count: u64) {
        self.observer.evicted(count);
    }

    fn reconnected(&self) {
        // Counted first: a waiter that is notified compares.
        self.reconnects.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
        self.latches.woken_all();
    }
}

/// An acquisition under way.
#[derive(Debug)]
pub(crate) struct Acquiring<'a>(&'a Engine);

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        self.0.acquiring.fetch_sub(1, Ordering::SeqCst);
        if self.0.closing.load(Ordering::SeqCst) {
            self.0.changed.notify_waiters();
        }
    }
}

/// What is left until `end`; `None` when it has passed.
pub(crate) fn left(end: Moment, now: Moment) -> Option<Duration> {
    Some(end.remaining(now)).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::memory::Memory;
    use crate::backend::{Ask, Attempt, Backend};
    use crate::key::Key;
    use crate::kind::Kind;
    use crate::owner::OwnerRecord;
    use crate::request::LockRequest;

    /// An engine of another process, as a forked child has it.
    fn inherited(store: Memory) -> Arc<Engine> {
        let engine =
            Engine::new(Arc::new(store), String::new(), "", Profiles::default(), Settings::default())
                .expect("random bytes");
        let mut engine = Arc::into_inner(engine).expect("nobody else has it");
        let value = format!("{} host=a pid=0 service= since=0", "0".repeat(48));
        let parent = OwnerRecord::from_value(&value).expect("a record");
        engine.identity = Arc::new(parent.identity().clone());
        Arc::new(engine)
    }

    #[tokio::test(start_paused = true)]
    async fn a_forked_child_takes_no_locks_and_gives_none_back() {
        let store = Memory::new();
        let engine = inherited(store.clone());
        let refused = LockRequest::new(Arc::clone(&engine), "k", Kind::Reentrant).acquire().await;
        let refused = refused.expect_err("refused");
        assert_eq!(refused.kind(), LockErrorKind::InvalidRequest);
        assert!(refused.to_string().contains("fork"), "{refused}");

        let record = OwnerRecord::new(Arc::clone(&engine.identity), None);
        let key = Key::new("k").expect("a key");
        let claim = Claim::new(key, engine.owners.mint(), Duration::from_secs(60), record);
        assert!(matches!(store.acquire(&claim, Ask::Try).await, Ok(Attempt::Granted(_))));
        engine.release_in_background(&claim, None, Certainty::Granted, engine.clock.now());
        tokio::task::yield_now().await;
        let answer = store.release(&claim, None).await.expect("memory answers");
        assert_eq!(answer, Released::Released, "it was the parent's until now");
    }
}
