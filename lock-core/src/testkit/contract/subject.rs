//! Defines the backend under test, and the steps of which cases consist.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use super::{Variant, leases};
use crate::backend::{
    Ask, Attempt, Backend, BoxFuture, Capability, Claim, DynBackend, FencingToken, Grant, Heartbeat, Held,
    LatchState, LatchStep, LeaseScope, Listener, Mode, Queue, Released, Renew, Renewal,
};
use crate::clock::Moment;
use crate::error::Result;
use crate::key::Key;
use crate::owner::Owner;
use crate::testkit::Claims;

/// The pause between two tries of a case that waits for expiry.
const AGAIN: Duration = Duration::from_millis(10);
/// A lease that expires within a case.
const SHORT: Duration = Duration::from_millis(200);
/// The longest delay that is allowed for the expiry of a lease and for a notification.
const LATE: Duration = Duration::from_secs(5);

/// A backend under test, with keys that no other case and no other run uses.
#[derive(Clone)]
pub struct Subject {
    backend: Arc<dyn DynBackend>,
    claims: Arc<Claims>,
    /// The source of claims of another manager.
    strangers: Arc<Claims>,
    prefix: String,
    variant: Variant,
    short: Duration,
    /// The function that ends the session of a process at the store.
    ends_session: Option<EndsSession>,
    /// The listeners of both managers, if the store requires that processes are attached. This field keeps them alive.
    attached: Vec<Arc<dyn Listener>>,
    /// The duration of the longest call of the case, in microseconds.
    slowest: Arc<AtomicU64>,
}

type EndsSession = Arc<dyn Fn(u128) -> BoxFuture<'static, ()> + Send + Sync>;

/// A listener that ignores notifications.
#[derive(Debug)]
struct Silent;

impl Listener for Silent {
    fn granted(&self, _owner: Owner, _waiters: usize) {}

    fn contended(&self, _key: &str) {}

    fn opened(&self, _key: &str) {}

    fn reconnected(&self) {}
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("backend", &self.backend).field("prefix", &self.prefix).finish()
    }
}

impl Subject {
    /// Returns a subject for `backend`.
    ///
    /// # Panics
    /// Panics when the operating system returns no random bytes.
    #[must_use]
    pub fn new(backend: impl Backend) -> Self {
        Self::from_dyn(Arc::new(backend))
    }

    /// Returns a subject for a backend behind a pointer, like [`new`](Self::new).
    ///
    /// # Panics
    /// Panics when the operating system returns no random bytes.
    #[must_use]
    pub fn from_dyn(backend: Arc<dyn DynBackend>) -> Self {
        let [claims, strangers] = [(); 2].map(|()| Arc::new(Claims::new().expect("random bytes")));
        let prefix = format!("testkit:{}", &claims.owner().token().as_str()[..16]);
        Self {
            backend,
            claims,
            strangers,
            prefix,
            variant: Variant::Plain,
            short: SHORT,
            ends_session: None,
            attached: Vec::new(),
            slowest: Arc::default(),
        }
    }

    /// Sets the length of a lease that expires within a case. The cases use at least the shortest lease that the
    /// backend supports. Default: 200 ms. Set a longer lease for a backend that uses part of the lease to collect
    /// answers, such as a quorum. The rest of the lease must be longer than the delays of the test machine.
    #[must_use]
    pub fn with_short_lease(mut self, short: Duration) -> Self {
        self.short = short;
        self
    }

    /// Sets the function that ends the session of a process at the store before the client notices, as an expiry does.
    /// This is required for a store whose grants live in sessions ([`LeaseScope::Session`]).
    #[must_use]
    pub fn with_session_end(
        mut self,
        end: impl Fn(u128) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        self.ends_session = Some(Arc::new(end));
        self
    }

    pub(super) fn for_case(mut self, case: &str, variant: Variant) -> Self {
        if self.capability().lease == LeaseScope::Session {
            for process in [&self.claims, &self.strangers].map(|claims| claims.owner().process()) {
                let silent: Arc<dyn Listener> = Arc::new(Silent);
                self.attach(process, Arc::downgrade(&silent));
                self.attached.push(silent);
            }
        }
        self.prefix = format!("{}:{case}", self.prefix);
        self.variant = variant;
        self.slowest = Arc::default();
        self
    }

    /// Returns a function to call after the case. The function returns whether a call was so slow that leases and queue
    /// entries of the case may have expired before its next step. A case makes up to eight calls before it renews a
    /// lease or sends a heartbeat.
    pub(super) fn was_slow(&self) -> impl FnOnce() -> bool + use<> {
        let leases = [Some(self.short()), self.capability().waiting.waiter_lease()];
        let shortest = leases.into_iter().flatten().min().unwrap_or_default();
        let slowest = Arc::clone(&self.slowest);
        move || Duration::from_micros(slowest.load(Ordering::Relaxed)) > shortest / 8
    }

    /// Makes a call, and records its duration.
    async fn timed<T>(&self, call: impl Future<Output = T>) -> T {
        let before = self.now();
        let answer = call.await;
        let took = self.now().since(before).as_micros();
        self.slowest.fetch_max(u64::try_from(took).unwrap_or(u64::MAX), Ordering::Relaxed);
        answer
    }

    pub(super) fn capability(&self) -> Capability {
        self.backend.capability_dyn()
    }

    pub(super) fn backend(&self) -> &dyn DynBackend {
        &*self.backend
    }

    /// Attaches `process` to the store, as the manager of that process would.
    pub(super) fn attach(&self, process: u128, listener: Weak<dyn Listener>) {
        self.backend.attach_dyn(process, listener, Handle::try_current().ok().as_ref());
    }

    /// Ends the session of `process` at the store.
    pub(super) async fn end_session(&self, process: u128) {
        let end = self.ends_session.as_ref().expect("say how a session ends: `Subject::with_session_end`");
        end(process).await;
    }

    /// Returns a key of this case.
    pub(super) fn key(&self, name: &str) -> Key {
        Key::new(&format!("{}:{name}", self.prefix)).expect("BUG: the prefix is not empty")
    }

    /// Returns a lease that expires within a case.
    pub(super) fn short(&self) -> Duration {
        self.capability().min_ttl.max(self.short)
    }

    /// Returns a lease that does not expire within a case.
    pub(super) fn long(&self) -> Duration {
        self.capability().max_ttl.min(Duration::from_secs(120))
    }

    /// Returns a claim of a fresh owner with a long lease.
    pub(super) fn claim(&self, key: &Key, mode: Mode, queue: Queue) -> Claim {
        self.claims.claim(key, mode, queue, self.long())
    }

    pub(super) fn exclusive(&self, key: &Key) -> Claim {
        self.claim(key, Mode::Exclusive, Queue::Barging)
    }

    /// Returns a claim that excludes all others. The variant of the case decides whether this is a lock, a writer, or
    /// the only permit of a semaphore.
    pub(super) fn mutex(&self, key: &Key) -> Claim {
        let (mode, queue) = self.variant.claims();
        self.claim(key, mode, queue)
    }

    /// Returns a claim of an owner of another manager.
    pub(super) fn stranger(&self, key: &Key, mode: Mode, queue: Queue) -> Claim {
        self.strangers.claim(key, mode, queue, self.long())
    }

    /// Returns a barging claim on all of `keys`.
    pub(super) fn all(&self, keys: &[Key]) -> Claim {
        self.claims.all(keys.iter().cloned(), Queue::Barging, self.long())
    }

    /// Returns a fresh owner.
    pub(super) fn owner(&self) -> Owner {
        self.claims.owner()
    }

    /// Returns `claim` with a short lease.
    pub(super) fn brief(&self, claim: Claim) -> Claim {
        Claim { ttl: self.short(), ..claim }
    }

    /// Returns the longest time for which the store keeps a waiter that sends no heartbeat. The store must have an
    /// order of arrival.
    pub(super) fn waiter_lease(&self) -> Duration {
        self.capability().waiting.waiter_lease().expect("an order of arrival")
    }

    pub(super) fn now(&self) -> Moment {
        self.capability().placement.clock().now()
    }

    pub(super) async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.timed(self.backend.acquire_dyn(claim, Ask::Try)).await
    }

    /// Repeats a try until it has an answer. With a short lease, the first answer may be too late on a busy machine.
    async fn answer(&self, claim: &Claim) -> Attempt {
        let end = self.now().plus(LATE);
        loop {
            match self.attempt(claim).await {
                Ok(answer) => return answer,
                Err(error) if error.is_temporary() && !end.is_past(self.now()) => {
                    tokio::time::sleep(AGAIN).await;
                }
                Err(error) => panic!("no answer to a try: {error}"),
            }
        }
    }

    /// Returns whether one try is granted.
    pub(super) async fn gets(&self, claim: &Claim) -> bool {
        match self.answer(claim).await {
            Attempt::Granted(_) => true,
            Attempt::Held(_) => false,
        }
    }

    #[track_caller]
    pub(super) fn acquire(&self, claim: &Claim) -> impl Future<Output = Grant> + Send {
        let caller = std::panic::Location::caller();
        async move {
            match self.answer(claim).await {
                Attempt::Granted(grant) => grant,
                Attempt::Held(held) => panic!("line {}: refused, not granted: {held:?}", caller.line()),
            }
        }
    }

    #[track_caller]
    pub(super) fn refused(&self, claim: &Claim) -> impl Future<Output = Held> + Send {
        let caller = std::panic::Location::caller();
        async move {
            match self.answer(claim).await {
                Attempt::Held(held) => held,
                Attempt::Granted(_) => panic!("line {}: granted beside a holder", caller.line()),
            }
        }
    }

    /// Repeats the claim until it is granted. Fails after `at_most` plus the delay that is allowed for a store.
    #[track_caller]
    pub(super) fn granted_within(
        &self,
        claim: &Claim,
        at_most: Duration,
    ) -> impl Future<Output = Grant> + Send {
        let caller = std::panic::Location::caller();
        async move {
            let end = self.now().plus(at_most + LATE);
            while !end.is_past(self.now()) {
                if let Attempt::Granted(grant) = self.answer(claim).await {
                    return grant;
                }
                tokio::time::sleep(AGAIN).await;
            }
            panic!("line {}: still held after {at_most:?} and {LATE:?}", caller.line())
        }
    }

    /// Requests a queue entry.
    #[track_caller]
    pub(super) fn enqueue(&self, claim: &Claim) -> impl Future<Output = Held> + Send {
        self.enqueue_with_room(claim, None)
    }

    #[track_caller]
    pub(super) fn enqueue_with_room(
        &self,
        claim: &Claim,
        room: Option<usize>,
    ) -> impl Future<Output = Held> + Send {
        let caller = std::panic::Location::caller();
        async move {
            let answer = self.timed(self.backend.acquire_dyn(claim, Ask::Enqueue { room })).await;
            match answer.expect("an answer to enqueue") {
                Attempt::Held(held) => held,
                Attempt::Granted(_) => panic!("line {}: granted beside a holder", caller.line()),
            }
        }
    }

    /// Requests a queue entry, and checks that the claim has one.
    #[track_caller]
    pub(super) fn enqueued(&self, claim: &Claim) -> impl Future<Output = Held> + Send {
        let caller = std::panic::Location::caller();
        let enqueue = self.enqueue(claim);
        async move {
            let held = enqueue.await;
            assert!(held.queued_at.is_some(), "line {}: no place: {held:?}", caller.line());
            held
        }
    }

    /// Requests the state of a queued claim, with the call that the store requires for this.
    async fn asks_after(&self, claim: &Claim) -> std::result::Result<Grant, Held> {
        if self.capability().waiting.by_heartbeats() {
            let end = self.now().plus(LATE);
            let mut answer = self.timed(self.backend.heartbeat_dyn(claim)).await;
            // A heartbeat times out after half of a waiter's lease, so the heartbeat that is sent next is still in
            // time.
            while answer.as_ref().is_err_and(crate::LockError::is_temporary) && !end.is_past(self.now()) {
                answer = self.timed(self.backend.heartbeat_dyn(claim)).await;
            }
            match answer.expect("an answer to heartbeat") {
                Heartbeat::Granted(grant) => Ok(grant),
                Heartbeat::Waiting(held) => Err(held),
                Heartbeat::Gone => panic!("the place is gone"),
            }
        } else {
            let answer = self.timed(self.backend.acquire_dyn(claim, Ask::Enqueue { room: None })).await;
            match answer.expect("an answer to enqueue") {
                Attempt::Granted(grant) => Ok(grant),
                Attempt::Held(held) => Err(held),
            }
        }
    }

    /// Checks that a queued claim is not served yet, and keeps its queue entry.
    #[track_caller]
    pub(super) fn still_waits(&self, claim: &Claim) -> impl Future<Output = Held> + Send {
        let caller = std::panic::Location::caller();
        async move {
            match self.asks_after(claim).await {
                Err(held) if held.queued_at.is_some() => held,
                answer => panic!("line {}: it is not its turn: {answer:?}", caller.line()),
            }
        }
    }

    /// Waits until a queued claim is served, and keeps its queue entry alive meanwhile. Fails after `at_most` plus the
    /// delay that is allowed for a store.
    #[track_caller]
    pub(super) fn served(&self, claim: &Claim, at_most: Duration) -> impl Future<Output = Grant> + Send {
        self.served_before(claim, &[], at_most)
    }

    /// Waits like [`served`](Self::served), and also keeps alive the claims `behind` this claim in the queue.
    #[track_caller]
    pub(super) fn served_before(
        &self,
        claim: &Claim,
        behind: &[&Claim],
        at_most: Duration,
    ) -> impl Future<Output = Grant> + Send {
        let caller = std::panic::Location::caller();
        async move {
            let end = self.now().plus(at_most + LATE);
            while !end.is_past(self.now()) {
                match self.asks_after(claim).await {
                    Ok(grant) => return grant,
                    Err(held) => {
                        assert!(held.queued_at.is_some(), "line {}: no place: {held:?}", caller.line())
                    }
                }
                for claim in behind {
                    self.still_waits(claim).await;
                }
                tokio::time::sleep(AGAIN).await;
            }
            panic!("line {}: still waits after {at_most:?} and {LATE:?}", caller.line())
        }
    }

    /// Waits until a short lease that starts now has expired in the store. If the store has no leases that expire,
    /// waits for the same time.
    pub(super) async fn short_lease_runs_out(&self) {
        if !leases(&self.capability()) {
            return tokio::time::sleep(self.short()).await;
        }
        let key = self.key("measure");
        self.acquire(&self.brief(self.exclusive(&key))).await;
        let next = self.exclusive(&key);
        self.granted_within(&next, self.short()).await;
        self.release(&next).await;
    }

    pub(super) async fn renew(&self, claim: &Claim, ttl: Duration) -> Renewal {
        let batch = [Renew { claim, ttl }];
        let mut answers = self.timed(self.backend.renew_dyn(&batch)).await;
        assert_eq!(answers.len(), 1, "one answer for one grant");
        answers.pop().expect("BUG: there is one")
    }

    #[track_caller]
    pub(super) fn renewed(&self, claim: &Claim, ttl: Duration) -> impl Future<Output = ()> + Send {
        let caller = std::panic::Location::caller();
        async move {
            let end = self.now().plus(LATE);
            loop {
                match self.renew(claim, ttl).await {
                    Renewal::Renewed { .. } => return,
                    // With a short lease, the answer may be too late on a busy machine.
                    Renewal::Unknown(error) if error.is_temporary() && !end.is_past(self.now()) => {
                        tokio::time::sleep(AGAIN).await;
                    }
                    renewal => panic!("line {}: {renewal:?}", caller.line()),
                }
            }
        }
    }

    #[track_caller]
    pub(super) fn not_renewed(&self, claim: &Claim) -> impl Future<Output = ()> + Send {
        let caller = std::panic::Location::caller();
        async move {
            let renewal = self.renew(claim, self.long()).await;
            assert!(matches!(renewal, Renewal::NotOwned), "line {}: {renewal:?}", caller.line());
        }
    }

    pub(super) async fn release(&self, claim: &Claim) -> Released {
        self.timed(self.backend.release_dyn(claim, None)).await.expect("an answer to release")
    }

    /// Returns the fencing token of a grant. If the grant does not contain the token, requests it from the store.
    pub(super) async fn token(&self, claim: &Claim, grant: &Grant) -> FencingToken {
        match grant.fence {
            Some(fence) => fence,
            None => self.backend.fence_dyn(claim).await.expect("a fencing token for the holder"),
        }
    }

    /// Awaits `future` for the delay that is allowed for a store. Returns whether the future completed.
    pub(super) async fn in_time(&self, future: impl Future<Output = ()>) -> bool {
        tokio::time::timeout(LATE, future).await.is_ok()
    }

    pub(super) async fn latch(&self, key: &Key, step: &LatchStep) -> LatchState {
        self.timed(self.backend.latch_dyn(key, step)).await.expect("an answer to latch")
    }

    /// Sets a latch as a fresh owner.
    pub(super) async fn set_latch(&self, key: &Key, count: u32) -> LatchState {
        self.latch(key, &LatchStep::Set { count, owner: self.owner(), ttl: self.long() }).await
    }

    pub(super) async fn count_down(&self, key: &Key, owner: Owner) -> LatchState {
        self.latch(key, &LatchStep::CountDown { owner, ttl: self.long() }).await
    }

    pub(super) async fn wait_for_latch(&self, key: &Key, process: u128) -> LatchState {
        self.latch(key, &LatchStep::Wait { process, ttl: self.long() }).await
    }

    pub(super) async fn look(&self, key: &Key) -> LatchState {
        self.latch(key, &LatchStep::Look).await
    }

    /// Reads a latch until its lease has expired. Fails after `at_most` plus the delay that is allowed for a store.
    #[track_caller]
    pub(super) fn latch_is_unset_within(
        &self,
        key: &Key,
        at_most: Duration,
    ) -> impl Future<Output = ()> + Send {
        let caller = std::panic::Location::caller();
        async move {
            let end = self.now().plus(at_most + LATE);
            while !end.is_past(self.now()) {
                if self.look(key).await == LatchState::Unset {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
            panic!("line {}: still set after {at_most:?} and {LATE:?}", caller.line())
        }
    }
}
