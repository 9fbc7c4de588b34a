//! A backend under test, and the steps that cases are made of.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{
    Attempt, Backend, Capability, Claim, DynBackend, FencingToken, Grant, Held, Mode, Queue, Released, Renew,
    Renewal,
};
use crate::clock::Moment;
use crate::error::Result;
use crate::key::Key;
use crate::testkit::Claims;

/// How often a case asks again while it waits for expiry.
const AGAIN: Duration = Duration::from_millis(10);
/// How much later than promised a lease may run out, or a wake-up come.
const LATE: Duration = Duration::from_secs(5);

/// A backend under test, with keys that no other case and no other run has.
#[derive(Clone)]
pub struct Subject {
    backend: Arc<dyn DynBackend>,
    claims: Arc<Claims>,
    prefix: String,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("backend", &self.backend).field("prefix", &self.prefix).finish()
    }
}

impl Subject {
    /// The subject that is `backend`.
    ///
    /// # Panics
    /// When the operating system gives no random bytes.
    #[must_use]
    pub fn new(backend: impl Backend) -> Self {
        Self::from_dyn(Arc::new(backend))
    }

    /// As [`new`](Self::new), from a pointer.
    ///
    /// # Panics
    /// When the operating system gives no random bytes.
    #[must_use]
    pub fn from_dyn(backend: Arc<dyn DynBackend>) -> Self {
        let claims = Claims::new().expect("random bytes");
        let prefix = format!("testkit:{}", &claims.owner().token().as_str()[..16]);
        Self { backend, claims: Arc::new(claims), prefix }
    }

    pub(super) fn for_case(mut self, case: &str) -> Self {
        self.prefix = format!("{}:{case}", self.prefix);
        self
    }

    pub(super) fn capability(&self) -> Capability {
        self.backend.capability_dyn()
    }

    pub(super) fn backend(&self) -> &dyn DynBackend {
        &*self.backend
    }

    /// A key of this case.
    pub(super) fn key(&self, name: &str) -> Key {
        Key::new(&format!("{}:{name}", self.prefix)).expect("BUG: the prefix is not empty")
    }

    /// A lease that runs out within a case.
    pub(super) fn short(&self) -> Duration {
        self.capability().min_ttl.max(Duration::from_millis(200))
    }

    /// A lease that does not.
    pub(super) fn long(&self) -> Duration {
        self.capability().max_ttl.min(Duration::from_secs(120))
    }

    /// A claim of a fresh owner with a long lease.
    pub(super) fn claim(&self, key: &Key, mode: Mode, queue: Queue) -> Claim {
        self.claims.claim(key, mode, queue, self.long())
    }

    pub(super) fn exclusive(&self, key: &Key) -> Claim {
        self.claim(key, Mode::Exclusive, Queue::Barging)
    }

    /// The same with a short lease.
    pub(super) fn brief(&self, claim: Claim) -> Claim {
        Claim { ttl: self.short(), ..claim }
    }

    pub(super) fn now(&self) -> Moment {
        self.capability().placement.clock().now()
    }

    pub(super) async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.backend.try_acquire_dyn(claim).await
    }

    /// Whether one try is granted.
    pub(super) async fn gets(&self, claim: &Claim) -> bool {
        match self.attempt(claim).await.expect("an answer to try_acquire") {
            Attempt::Granted(_) => true,
            Attempt::Held(_) => false,
        }
    }

    #[track_caller]
    pub(super) fn acquire(&self, claim: &Claim) -> impl Future<Output = Grant> + Send {
        let caller = std::panic::Location::caller();
        async move {
            match self.attempt(claim).await.expect("an answer to try_acquire") {
                Attempt::Granted(grant) => grant,
                Attempt::Held(held) => panic!("line {}: refused, not granted: {held:?}", caller.line()),
            }
        }
    }

    #[track_caller]
    pub(super) fn refused(&self, claim: &Claim) -> impl Future<Output = Held> + Send {
        let caller = std::panic::Location::caller();
        async move {
            match self.attempt(claim).await.expect("an answer to try_acquire") {
                Attempt::Held(held) => held,
                Attempt::Granted(_) => panic!("line {}: granted beside a holder", caller.line()),
            }
        }
    }

    /// Asks until the claim is granted, for `at_most` and some time for a store that is late.
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
                if let Attempt::Granted(grant) = self.attempt(claim).await.expect("an answer to try_acquire")
                {
                    return grant;
                }
                tokio::time::sleep(AGAIN).await;
            }
            panic!("line {}: still held after {at_most:?} and {LATE:?}", caller.line())
        }
    }

    /// Waits until a short lease that starts now has run out in the store.
    pub(super) async fn short_lease_runs_out(&self) {
        let key = self.key("measure");
        self.acquire(&self.brief(self.exclusive(&key))).await;
        let next = self.exclusive(&key);
        self.granted_within(&next, self.short()).await;
        self.release(&next).await;
    }

    pub(super) async fn renew(&self, claim: &Claim, ttl: Duration) -> Renewal {
        let mut answers = self.backend.renew_dyn(&[Renew { claim, ttl }]).await;
        assert_eq!(answers.len(), 1, "one answer for one grant");
        answers.pop().expect("BUG: there is one")
    }

    #[track_caller]
    pub(super) fn renewed(&self, claim: &Claim, ttl: Duration) -> impl Future<Output = ()> + Send {
        let caller = std::panic::Location::caller();
        async move {
            let renewal = self.renew(claim, ttl).await;
            assert!(matches!(renewal, Renewal::Renewed { .. }), "line {}: {renewal:?}", caller.line());
        }
    }

    #[track_caller]
    pub(super) fn not_renewed(&self, claim: &Claim) -> impl Future<Output = ()> + Send {
        let caller = std::panic::Location::caller();
        async move {
            let renewal = self.renew(claim, self.long()).await;
            assert!(matches!(renewal, Renewal::NotMine), "line {}: {renewal:?}", caller.line());
        }
    }

    pub(super) async fn release(&self, claim: &Claim) -> Released {
        self.backend.release_dyn(claim, None).await.expect("an answer to release")
    }

    /// The fencing token of a grant, wherever it comes from.
    pub(super) async fn token(&self, claim: &Claim, grant: &Grant) -> FencingToken {
        match grant.fence {
            Some(fence) => fence,
            None => self.backend.fence_dyn(claim).await.expect("a fencing token for the holder"),
        }
    }

    /// Awaits `future` for as long as a store may be late; whether it completed.
    pub(super) async fn in_time(&self, future: impl Future<Output = ()>) -> bool {
        tokio::time::timeout(LATE, future).await.is_ok()
    }
}
