//! Defines a backend that fails on demand.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Finding, GrantId, Heartbeat, LatchState,
    LatchStep, LeaseCheck, Listed, Listener, LockInfo, Ping, Released, Renew, Renewal,
};
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;
use crate::sync::{Mutex, MutexGuard};

/// A call of [`Backend`] that a [`Flaky`] can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Backend::acquire`] with [`Ask::Probe`] or [`Ask::Try`].
    Acquire,
    /// [`Backend::renew`]. One call renews a whole batch.
    Renew,
    /// [`Backend::release`].
    Release,
    /// [`Backend::fence`].
    Fence,
    /// [`Backend::acquire`] with [`Ask::Enqueue`].
    Enqueue,
    /// [`Backend::heartbeat`].
    Heartbeat,
    /// [`Backend::downgrade`].
    Downgrade,
    /// [`Backend::latch`].
    Latch,
}

impl Operation {
    const COUNT: usize = Self::Latch as usize + 1;
}

/// The way in which a call fails. The error is a temporary [`Unavailable`](LockErrorKind::Unavailable).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The call fails before it reaches the store, and the error reports that the store did nothing.
    Refuse,
    /// The request is lost in transit. The store did nothing, but the error does not report this.
    LoseRequest,
    /// The answer is lost in transit. The store executed the call, but the error does not report this.
    LoseAnswer,
    /// The call hangs before it reaches the store. After [`FlakyControl::heal`] it continues.
    Hang,
    /// The store executes the call, but the answer hangs until [`FlakyControl::heal`].
    HangAnswer,
}

/// A backend that wraps another backend, and fails on demand.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use lock_core::backend::{Ask, Attempt, Backend, memory::Memory};
/// use lock_core::key::Key;
/// use lock_core::testkit::{Claims, Fault, Flaky, Operation};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// let (flaky, control) = Flaky::new(Memory::new());
/// let claim = Claims::new()?.exclusive(&Key::new("order:42")?, Duration::from_secs(5));
///
/// control.fail_next(Operation::Acquire, Fault::LoseAnswer, 1);
/// assert!(flaky.acquire(&claim, Ask::Try).await.is_err());
/// // The store had granted it all the same.
/// assert!(matches!(flaky.acquire(&claim, Ask::Try).await?, Attempt::Granted(_)));
/// assert_eq!(control.calls(Operation::Acquire), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Flaky<B> {
    inner: B,
    control: FlakyControl,
}

/// A handle that plans the faults of a [`Flaky`]. Clones of the handle control the same `Flaky`.
#[derive(Clone, Debug)]
pub struct FlakyControl(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    plans: [Mutex<Plan>; Operation::COUNT],
    /// Counts the calls of `heal`. A hanging call waits until this number changes.
    healed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Plan {
    faults: VecDeque<(Fault, u64)>,
    calls: u64,
    hanging: u64,
}

impl<B: Backend> Flaky<B> {
    /// Wraps `inner`. Returns the backend, which has no planned faults, and its control.
    pub fn new(inner: B) -> (Self, FlakyControl) {
        let control =
            FlakyControl(Arc::new(Shared { plans: Default::default(), healed: watch::Sender::new(0) }));
        (Self { inner, control: control.clone() }, control)
    }

    /// Returns the wrapped backend.
    pub fn get_ref(&self) -> &B {
        &self.inner
    }

    async fn before(&self, operation: Operation, fault: Option<Fault>) -> Result<()> {
        match fault {
            Some(Fault::Refuse) => Err(error(operation, "refused").nothing_taken()),
            Some(Fault::LoseRequest) => Err(error(operation, "lost")),
            Some(Fault::Hang) => {
                self.control.hang(operation).await;
                Ok(())
            }
            Some(Fault::LoseAnswer | Fault::HangAnswer) | None => Ok(()),
        }
    }

    async fn after(&self, operation: Operation, fault: Option<Fault>) -> Result<()> {
        match fault {
            Some(Fault::LoseAnswer) => Err(error(operation, "answered, and the answer was lost")),
            Some(Fault::HangAnswer) => {
                self.control.hang(operation).await;
                Ok(())
            }
            Some(Fault::Refuse | Fault::LoseRequest | Fault::Hang) | None => Ok(()),
        }
    }

    async fn call<T>(&self, operation: Operation, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let fault = self.control.next(operation);
        self.before(operation, fault).await?;
        let answer = call.await;
        self.after(operation, fault).await?;
        answer
    }
}

fn error(operation: Operation, what: &str) -> LockError {
    LockError::new(LockErrorKind::Unavailable, format!("planned fault: {operation:?} was {what}"))
}

impl FlakyControl {
    /// Makes the next `times` calls of `operation` fail with `fault`. Faults that are already planned come first.
    pub fn fail_next(&self, operation: Operation, fault: Fault, times: u64) {
        self.plan(operation).faults.push_back((fault, times));
    }

    /// Makes every call of `operation` fail with `fault` until [`heal`](Self::heal). Faults that are already planned
    /// come first.
    pub fn fail_always(&self, operation: Operation, fault: Fault) {
        self.fail_next(operation, fault, u64::MAX);
    }

    /// Removes every planned fault, and lets hanging calls continue.
    pub fn heal(&self) {
        for plan in &self.0.plans {
            plan.lock().faults.clear();
        }
        self.0.healed.send_modify(|count| *count += 1);
    }

    /// Returns the number of calls of `operation`, including calls that failed.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> u64 {
        self.plan(operation).calls
    }

    /// Returns the number of calls of `operation` that hang now. A call that was dropped does not count.
    #[must_use]
    pub fn hanging(&self, operation: Operation) -> u64 {
        self.plan(operation).hanging
    }

    fn plan(&self, operation: Operation) -> MutexGuard<'_, Plan> {
        self.0.plans[operation as usize].lock()
    }

    fn next(&self, operation: Operation) -> Option<Fault> {
        let mut plan = self.plan(operation);
        plan.calls += 1;
        while plan.faults.front().is_some_and(|(_, times)| *times == 0) {
            plan.faults.pop_front();
        }
        let (fault, times) = plan.faults.front_mut()?;
        *times -= 1;
        Some(*fault)
    }

    async fn hang(&self, operation: Operation) {
        let mut healed = self.0.healed.subscribe();
        let _hanging = Hanging::new(self, operation);
        // `self` keeps the sender alive, so `changed` cannot fail.
        let _ = healed.changed().await;
    }
}

/// Counts a hanging call for as long as its future exists.
struct Hanging<'a>(&'a FlakyControl, Operation);

impl<'a> Hanging<'a> {
    fn new(control: &'a FlakyControl, operation: Operation) -> Self {
        control.plan(operation).hanging += 1;
        Self(control, operation)
    }
}

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.plan(self.1).hanging -= 1;
    }
}

impl<B: Backend> Backend for Flaky<B> {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        let operation = if ask.enqueues() { Operation::Enqueue } else { Operation::Acquire };
        self.call(operation, self.inner.acquire(claim, ask)).await
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        self.call(Operation::Heartbeat, self.inner.heartbeat(claim)).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let call = async { Ok(self.inner.renew(batch).await) };
        match self.call(Operation::Renew, call).await {
            Ok(answers) => answers,
            Err(_) => {
                batch.iter().map(|_| Renewal::Unknown(error(Operation::Renew, "not answered"))).collect()
            }
        }
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.call(Operation::Release, self.inner.release(claim, keep_for)).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.call(Operation::Fence, self.inner.fence(claim)).await
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        let call = async { Ok(self.inner.downgrade(claim).await) };
        self.call(Operation::Downgrade, call).await.unwrap_or_else(Renewal::Unknown)
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        self.call(Operation::Latch, self.inner.latch(key, step)).await
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        self.inner.list(prefix, foreign, limit).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        self.inner.inspect(key).await
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        self.inner.force_release(key, id).await
    }

    async fn ping(&self) -> Result<Ping> {
        self.inner.ping().await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.inner.doctor().await
    }

    fn shard_of(&self, claim: &Claim) -> u64 {
        self.inner.shard_of(claim)
    }

    fn lease_check(&self, claim: &Claim) -> Option<LeaseCheck> {
        self.inner.lease_check(claim)
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        background: Option<&tokio::runtime::Handle>,
    ) {
        self.inner.attach(process, listener, background);
    }

    async fn changed(&self, claim: &Claim) {
        self.inner.changed(claim).await;
    }

    async fn others_wait(&self, claim: &Claim) -> Result<bool> {
        self.inner.others_wait(claim).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::memory::Memory;
    use crate::key::Key;
    use crate::testkit::Claims;

    fn claims() -> [Claim; 2] {
        let claims = Claims::new().expect("random bytes");
        let key = Key::new("k").expect("a key");
        [(); 2].map(|()| claims.exclusive(&key, Duration::from_secs(5)))
    }

    async fn granted(flaky: &Flaky<Memory>, claim: &Claim) -> bool {
        matches!(flaky.acquire(claim, Ask::Try).await.expect("an answer"), Attempt::Granted(_))
    }

    #[tokio::test]
    async fn faults_come_in_the_order_of_the_plan_and_end() {
        let (flaky, control) = Flaky::new(Memory::new());
        let [first, second] = claims();
        control.fail_next(Operation::Acquire, Fault::Refuse, 1);
        control.fail_next(Operation::Acquire, Fault::LoseRequest, 1);
        control.fail_next(Operation::Acquire, Fault::LoseAnswer, 1);
        assert!(!flaky.acquire(&first, Ask::Try).await.expect_err("refused").is_ambiguous());
        assert!(flaky.acquire(&first, Ask::Try).await.expect_err("lost").is_ambiguous());
        assert!(flaky.acquire(&first, Ask::Try).await.expect_err("lost").is_ambiguous());
        assert!(!granted(&flaky, &second).await, "the third reached the store");
        assert_eq!(control.calls(Operation::Acquire), 4);
    }

    #[tokio::test]
    async fn calls_hang_until_healed_before_or_after_the_store() {
        for (fault, reached) in [(Fault::Hang, false), (Fault::HangAnswer, true)] {
            let (flaky, control) = Flaky::new(Memory::new());
            let [first, second] = claims();
            control.fail_always(Operation::Acquire, fault);
            let call = tokio::spawn({
                let (flaky, first) = (flaky.clone(), first.clone());
                async move { granted(&flaky, &first).await }
            });
            while control.hanging(Operation::Acquire) == 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(
                matches!(flaky.get_ref().acquire(&second, Ask::Try).await, Ok(Attempt::Held(_))),
                reached
            );
            flaky.release(&second, None).await.expect("an answer");
            control.heal();
            assert!(call.await.expect("no panic"));
            assert_eq!(control.hanging(Operation::Acquire), 0);
        }
    }

    #[tokio::test]
    async fn a_batch_that_fails_is_unknown_one_by_one() {
        let (flaky, control) = Flaky::new(Memory::new());
        let [first, second] = claims();
        let batch = [&first, &second].map(|claim| Renew { claim, ttl: claim.ttl });
        control.fail_next(Operation::Renew, Fault::Refuse, 1);
        assert!(matches!(flaky.renew(&batch).await[..], [Renewal::Unknown(_), Renewal::Unknown(_)]));
        assert!(matches!(flaky.renew(&batch).await[..], [Renewal::NotOwned, Renewal::NotOwned]));
    }

    #[tokio::test]
    async fn every_call_is_passed_on_counted_and_failed() {
        let (flaky, control) = Flaky::new(Memory::new());
        let [first, second] = claims();
        let (fence, look) = (flaky.fence(&first).await, LatchStep::Look);
        fence.expect_err("nobody's");
        assert!(matches!(flaky.acquire(&first, Ask::Probe).await, Ok(Attempt::Granted(_))));
        assert!(matches!(flaky.acquire(&second, Ask::Enqueue { room: None }).await, Ok(Attempt::Held(_))));
        flaky.heartbeat(&second).await.expect_err("the memory store needs none");
        assert!(matches!(flaky.downgrade(&first).await, Renewal::Renewed { .. }));
        let latch = Key::new("latch").expect("a key");
        assert!(matches!(flaky.latch(&latch, &look).await, Ok(LatchState::Unset)));
        for operation in [Operation::Enqueue, Operation::Heartbeat, Operation::Downgrade, Operation::Latch] {
            assert_eq!(control.calls(operation), 1, "{operation:?}");
            control.fail_next(operation, Fault::LoseRequest, 1);
        }
        let planned = |error: &LockError| error.to_string().contains("planned fault");
        assert!(planned(&flaky.acquire(&second, Ask::Enqueue { room: None }).await.expect_err("lost")));
        assert!(planned(&flaky.heartbeat(&second).await.expect_err("lost")));
        assert!(matches!(flaky.downgrade(&first).await, Renewal::Unknown(error) if planned(&error)));
        assert!(planned(&flaky.latch(&latch, &look).await.expect_err("lost")));
    }
}
