//! The memory store with one part of the contract broken on purpose.

#[path = "ask.rs"]
mod ask;
#[path = "fault.rs"]
mod fault;
#[path = "inspect.rs"]
mod inspect;
#[path = "latch.rs"]
mod latch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

pub(crate) use fault::Fault;
use latch::Latches;
use lock_core::backend::memory::Memory;
use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, Fencing, FencingToken, Grant, Heartbeat, LatchState, LatchStep,
    Listener, Mode, Queue, Released, Renew, Renewal, Waiting,
};
use lock_core::key::Key;
use lock_core::{GrantId, Listed, LockError, LockErrorKind, LockInfo, Result};

#[derive(Clone, Debug)]
pub(crate) struct Broken {
    inner: Memory,
    fault: Fault,
    limited: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The last granted claim of each key.
    holders: HashMap<String, Claim>,
    waiting: Vec<Claim>,
    listeners: HashMap<u128, Weak<dyn Listener>>,
    latches: Latches,
    calls: u64,
}

impl Broken {
    pub(crate) fn with(fault: Fault) -> Self {
        Self { inner: Memory::new(), fault, limited: false, state: Arc::default() }
    }

    /// Returns the same store, without support for shared locks, permits, queues and tokens.
    pub(crate) fn limited(self) -> Self {
        Self { limited: true, ..self }
    }

    fn holder(&self, claim: &Claim) -> Option<Claim> {
        self.state.lock().expect("no panic").holders.get(claim.key.as_str()).cloned()
    }

    fn count(&self) -> u64 {
        let mut state = self.state.lock().expect("no panic");
        state.calls += 1;
        state.calls
    }

    /// Returns the claim as the broken store misreads it.
    fn read(&self, claim: &Claim) -> Claim {
        let mut claim = claim.clone();
        match self.fault {
            Fault::RunsOutEarly => claim.ttl = claim.ttl.mul_f64(0.9),
            Fault::NeverRunsOut => claim.ttl *= 1_000,
            Fault::LongLeases => claim.ttl = claim.ttl.max(Duration::from_secs(60)),
            Fault::FoldsCase => {
                claim.key = lock_core::key::Key::new(&claim.key.as_str().to_lowercase()).expect("a key");
            }
            Fault::ReadersExclude if claim.mode == Mode::Shared => claim.mode = Mode::Exclusive,
            Fault::WriterBesideReaders
                if claim.mode == Mode::Exclusive
                    && self.holder(&claim).is_some_and(|holder| holder.mode == Mode::Shared) =>
            {
                claim.mode = Mode::Shared;
            }
            Fault::OnePermitTooMany => {
                if let Mode::Permit { of } = claim.mode {
                    claim.mode = Mode::Permit { of: of + 1 };
                }
            }
            Fault::NoOrder => claim.queue = Queue::Barging,
            Fault::PermitsOfAnyNumber => {
                if let Some(holder) = self.holder(&claim) {
                    claim.mode = holder.mode;
                }
            }
            Fault::FirstOfSeveral => claim.more = [].into(),
            Fault::Approximates => (claim.mode, claim.queue) = (Mode::Exclusive, Queue::Barging),
            _ => {}
        }
        claim
    }

    fn supports(&self, claim: &Claim) -> Result<()> {
        if claim.mode == Mode::Exclusive && claim.queue == Queue::Barging && claim.more.is_empty() {
            return Ok(());
        }
        self.has("more than exclusive and barging")
    }

    fn has(&self, what: &str) -> Result<()> {
        if self.limited && self.fault != Fault::Approximates {
            return Err(LockError::new(LockErrorKind::Unsupported, format!("no {what}")));
        }
        Ok(())
    }

    /// Replaces the holder's grant by a grant of the same owner with another lease.
    fn reset(&self, claim: &Claim, ttl: Duration) -> Renewal {
        if !matches!(now(self.inner.release(claim, None)), Ok(Released::Released)) {
            return Renewal::NotOwned;
        }
        self.force(&with_ttl(claim, ttl))
    }

    fn force(&self, claim: &Claim) -> Renewal {
        match now(self.inner.acquire(claim, Ask::Try)) {
            Ok(Attempt::Granted(grant)) => {
                Renewal::Renewed { sent: grant.sent, lease: grant.lease, waiters: None }
            }
            Ok(Attempt::Held(_)) => Renewal::NotOwned,
            Err(error) => Renewal::Unknown(error),
        }
    }

    fn renew_one(&self, renew: &Renew<'_>) -> Renewal {
        let claim = self.read(renew.claim);
        let sent = self.capability().placement.clock().now();
        let inner = |ttl| now(self.inner.renew(&[Renew { claim: &claim, ttl }])).pop().expect("one");
        match self.fault {
            Fault::RenewResurrects => self.force(&with_ttl(&claim, renew.ttl)),
            Fault::RenewsPart => {
                let first = first_of(&claim);
                now(self.inner.renew(&[Renew { claim: &first, ttl: renew.ttl }])).pop().expect("one")
            }
            Fault::HidesWaiters => match inner(renew.ttl) {
                Renewal::Renewed { sent, lease, .. } => Renewal::Renewed { sent, lease, waiters: Some(0) },
                answer => answer,
            },
            Fault::RenewShortens => self.reset(&claim, renew.ttl),
            Fault::RenewDoesNothing => inner(Duration::ZERO),
            Fault::RenewLies => Renewal::Renewed { sent, lease: renew.ttl, waiters: None },
            Fault::RenewPromisesMore => match inner(renew.ttl) {
                Renewal::Renewed { sent, lease, waiters } => {
                    Renewal::Renewed { sent, lease: lease * 2, waiters }
                }
                answer => answer,
            },
            Fault::SentLate => match inner(renew.ttl) {
                Renewal::Renewed { lease, waiters, .. } => {
                    Renewal::Renewed { sent: sent.plus(renew.ttl), lease, waiters }
                }
                answer => answer,
            },
            Fault::KeptIsRenewed => match inner(renew.ttl) {
                Renewal::NotOwned
                    if self.holder(&claim).is_some_and(|holder| holder.owner == claim.owner) =>
                {
                    Renewal::Renewed { sent, lease: renew.ttl, waiters: None }
                }
                answer => answer,
            },
            _ => inner(renew.ttl),
        }
    }
}

/// Returns the claim, reduced to its first key.
fn first_of(claim: &Claim) -> Claim {
    let mut claim = claim.clone();
    claim.more = [].into();
    claim
}

fn with_ttl(claim: &Claim, ttl: Duration) -> Claim {
    let mut claim = claim.clone();
    claim.ttl = ttl;
    claim
}

/// Polls the future once. The memory store answers at the first poll.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("the memory store does not wait"),
    }
}

impl Backend for Broken {
    fn capability(&self) -> Capability {
        let mut can = self.inner.capability();
        if self.fault == Fault::CapabilityChanges {
            can.max_ttl -= Duration::from_secs(self.count());
        }
        if self.fault == Fault::Contradicts {
            can.keeps_after_release = Some(Duration::ZERO);
        }
        if self.limited {
            (can.shared, can.permits, can.several) = (false, false, false);
            (can.latches, can.lists, can.fencing) = (false, false, Fencing::None);
            can.waiting = Waiting::Poll;
        }
        can
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        if (self.fault, ask) == (Fault::ProbeLies, Ask::Probe) {
            return Ok(Attempt::Granted(Grant::new(self.capability().placement.clock().now(), claim.ttl)));
        }
        let queues = self.fault == Fault::TryTakesPlace;
        self.ask(claim, if queues && !ask.enqueues() { Ask::Enqueue { room: None } } else { ask }).await
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        match self.fault {
            Fault::HeartbeatLies => Ok(Heartbeat::Gone),
            _ => self.inner.heartbeat(claim).await,
        }
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        if let (Fault::DroppedRenewalLoses, [renew]) = (self.fault, batch)
            && matches!(self.inner.release(renew.claim, None).await, Ok(Released::Released))
        {
            tokio::task::yield_now().await;
            let _ = self.inner.acquire(renew.claim, Ask::Try).await;
        }
        let mut answers: Vec<_> = batch.iter().map(|renew| self.renew_one(renew)).collect();
        if self.fault == Fault::BatchReversed {
            answers.reverse();
        }
        if self.fault == Fault::OneAnswerTooMany {
            answers.push(Renewal::NotOwned);
        }
        answers
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        let mut claim = self.read(claim);
        if self.fault == Fault::ReleaseDoesNothing {
            return Ok(Released::Taken);
        }
        let keep_for = keep_for.filter(|_| self.fault != Fault::KeepsNothing);
        if self.fault == Fault::ReleaseIgnoresOwner
            && let Some(holder) = self.holder(&claim)
        {
            claim = holder;
        }
        if self.fault == Fault::StaysInQueue
            && claim.queue == Queue::Fifo
            && self.holder(&claim).is_none_or(|holder| holder.owner != claim.owner)
        {
            return Ok(Released::Taken);
        }
        self.state.lock().expect("no panic").waiting.retain(|waiting| waiting.owner != claim.owner);
        if self.fault == Fault::ReleasesPart {
            claim = first_of(&claim);
        }
        let released = self.inner.release(&claim, keep_for).await?;
        Ok(if self.fault == Fault::ReleaseLies { Released::Released } else { released })
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.has("tokens")?;
        match self.fault {
            Fault::TokenForAnybody => Ok(FencingToken::new(u64::MAX / 2 + self.count())),
            Fault::TokensFall => Ok(FencingToken::new(u64::MAX / 2 - self.count())),
            Fault::OneTokenForAllTurns => {
                let mut first = self.read(claim);
                first.handoffs = 0;
                self.inner.fence(&first).await
            }
            _ => self.inner.fence(&self.read(claim)).await,
        }
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        if let Err(error) = self.has("shared locks") {
            return Renewal::Unknown(error);
        }
        let sent = self.capability().placement.clock().now();
        let claim = &self.read(claim);
        let yes = Renewal::Renewed { sent, lease: claim.ttl, waiters: Some(0) };
        match self.fault {
            Fault::DowngradeLies => yes,
            Fault::DowngradeDoesNothing => {
                match self.inner.renew(&[Renew { claim, ttl: claim.ttl }]).await.pop() {
                    Some(answer) => answer,
                    None => yes,
                }
            }
            Fault::DowngradeFrees => {
                let _ = self.inner.release(claim, None).await;
                yes
            }
            Fault::DowngradeKeepsLease => self.inner.downgrade(&with_ttl(claim, Duration::ZERO)).await,
            Fault::DowngradeOvertakes => {
                for writer in self.waiting().iter().filter(|waiting| waiting.mode == Mode::Exclusive) {
                    let _ = self.inner.release(writer, None).await;
                    let _ = self.inner.acquire(writer, Ask::Enqueue { room: None }).await;
                }
                self.inner.downgrade(claim).await
            }
            _ => self.inner.downgrade(claim).await,
        }
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        self.has("latches")?;
        let step = self.state.lock().expect("no panic").latches.read(self.fault, key, step)?;
        match step {
            latch::Step::Answer(state) => Ok(state),
            latch::Step::Take(key, step) => self.inner.latch(&key, &step).await,
        }
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        let mut listed = inspect::list(self.fault, &self.inner, prefix, foreign, limit).await?;
        if self.fault == Fault::ShowsTokens {
            let holders = &self.state.lock().expect("no panic").holders;
            for lock in &mut listed.locks {
                let token = holders.get(&lock.key).map(|claim| claim.owner.token());
                lock.key.push_str(token.as_ref().map_or("", |token| token.as_str()));
            }
        }
        Ok(listed)
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        inspect::inspect(self.fault, &self.inner, key).await
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        inspect::force_release(self.fault, &self.inner, key, id).await
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        background: Option<&tokio::runtime::Handle>,
    ) {
        if self.fault != Fault::Mute {
            self.state.lock().expect("no panic").listeners.insert(process, Weak::clone(&listener));
            self.inner.attach(process, listener, background);
        }
    }

    async fn others_wait(&self, claim: &Claim) -> Result<bool> {
        match self.fault {
            Fault::SeesNobody => Ok(false),
            Fault::SeesNoHolder => {
                let info = self.inner.inspect(&claim.key).await?;
                Ok(info.is_some_and(|info| info.waiting > 0))
            }
            _ => self.inner.others_wait(claim).await,
        }
    }

    async fn changed(&self, claim: &Claim) {
        match self.fault {
            Fault::TellsNobody => tokio::time::sleep(claim.ttl).await,
            _ => self.inner.changed(&self.read(claim)).await,
        }
    }
}
