//! The memory store with one part of the contract broken on purpose.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::backend::{
    Attempt, Backend, Capability, Claim, FencingToken, Mode, Queue, Released, Renew, Renewal,
};
use lock_core::{LockError, LockErrorKind, Result};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// A release frees whoever holds.
    ReleaseIgnoresOwner,
    /// A release that found nothing says that it released.
    ReleaseLies,
    /// A release with `keep_for` frees at once.
    KeepsNothing,
    /// A key that is kept can be renewed by its former owner.
    KeptIsRenewed,
    /// A renewal of a free key takes it.
    RenewResurrects,
    /// A renewal sets the lease, shorter or longer.
    RenewShortens,
    /// A renewal says yes and does nothing.
    RenewDoesNothing,
    /// A renewal of what is not ours says yes.
    RenewLies,
    /// A batch is answered in another order.
    BatchReversed,
    /// An acquire that is repeated is refused.
    NotIdempotent,
    /// An acquire that is repeated brings another token.
    AnotherToken,
    /// An acquire that is repeated sets the lease, shorter or longer.
    AcquireShortens,
    /// Every fifth claim of a key that is held is granted too.
    TwoHolders,
    /// Leases run out at nine tenths.
    RunsOutEarly,
    /// Leases do not run out.
    NeverRunsOut,
    /// Every key is the same for the store up to its case.
    FoldsCase,
    /// Tokens fall.
    TokensFall,
    /// Anybody gets a token.
    TokenForAnybody,
    /// Readers exclude each other.
    ReadersExclude,
    /// A writer goes in beside readers.
    WriterBesideReaders,
    /// One permit too many.
    OnePermitTooMany,
    /// The queue has no order.
    NoOrder,
    /// One who leaves the queue with its release stays in it.
    StaysInQueue,
    /// A waiter is told when the lease runs out, and not of a release.
    TellsNobody,
    /// A try whose future is dropped before its end takes the key under another owner.
    DroppedTryTakes,
    /// What the capability does not name is done as if it were exclusive and barging.
    Approximates,
}

impl Fault {
    pub(crate) const ALL: [Self; 25] = [
        Self::ReleaseIgnoresOwner,
        Self::ReleaseLies,
        Self::KeepsNothing,
        Self::KeptIsRenewed,
        Self::RenewResurrects,
        Self::RenewShortens,
        Self::RenewDoesNothing,
        Self::RenewLies,
        Self::BatchReversed,
        Self::NotIdempotent,
        Self::AnotherToken,
        Self::AcquireShortens,
        Self::TwoHolders,
        Self::RunsOutEarly,
        Self::NeverRunsOut,
        Self::FoldsCase,
        Self::TokensFall,
        Self::TokenForAnybody,
        Self::ReadersExclude,
        Self::WriterBesideReaders,
        Self::OnePermitTooMany,
        Self::NoOrder,
        Self::StaysInQueue,
        Self::TellsNobody,
        Self::DroppedTryTakes,
    ];

    /// One case that must catch it; others may too.
    pub(crate) fn caught_by(self) -> &'static str {
        match self {
            Self::None => "",
            Self::ReleaseIgnoresOwner => "release::of_another",
            Self::ReleaseLies => "release::twice",
            Self::KeepsNothing | Self::KeptIsRenewed => "release::keeps",
            Self::RenewResurrects => "renewal::not_after_expiry",
            Self::RenewShortens => "renewal::never_shortens",
            Self::RenewDoesNothing => "renewal::outlives_its_first_lease",
            Self::RenewLies => "renewal::not_of_another",
            Self::BatchReversed => "renewal::a_batch_is_answered_in_order",
            Self::NotIdempotent | Self::AnotherToken => "exclusive::asks_again",
            Self::AcquireShortens => "exclusive::asks_again_with_less",
            Self::TwoHolders => "exclusive::excludes",
            Self::RunsOutEarly => "expiry::not_early",
            Self::NeverRunsOut => "expiry::frees",
            Self::FoldsCase => "exclusive::two_keys",
            Self::TokensFall => "fencing::grows_with_every_owner",
            Self::TokenForAnybody => "fencing::only_for_the_holder",
            Self::ReadersExclude => "shared::readers_together",
            Self::WriterBesideReaders => "shared::a_reader_keeps_writers_out",
            Self::OnePermitTooMany => "permit::so_many_and_no_more",
            Self::NoOrder => "fifo::order_of_arrival",
            Self::StaysInQueue => "fifo::one_who_leaves",
            Self::TellsNobody => "release::a_waiter_is_told",
            Self::DroppedTryTakes => "cancel::a_try",
            Self::Approximates => "refusal::more_than_it_can",
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    inner: Memory,
    fault: Fault,
    limited: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The claim that was granted last, by key.
    holders: HashMap<String, Claim>,
    calls: u64,
}

impl Broken {
    pub(crate) fn with(fault: Fault) -> Self {
        Self { inner: Memory::new(), fault, limited: false, state: Arc::default() }
    }

    /// The same without shared locks, permits, queues and tokens.
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

    /// The claim as the broken store understands it.
    fn read(&self, claim: &Claim) -> Claim {
        let mut claim = claim.clone();
        match self.fault {
            Fault::RunsOutEarly => claim.ttl = claim.ttl.mul_f64(0.9),
            Fault::NeverRunsOut => claim.ttl *= 1_000,
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
            Fault::Approximates => (claim.mode, claim.queue) = (Mode::Exclusive, Queue::Barging),
            _ => {}
        }
        claim
    }

    fn supports(&self, claim: &Claim) -> Result<()> {
        if self.limited
            && self.fault != Fault::Approximates
            && (claim.mode != Mode::Exclusive || claim.queue != Queue::Barging)
        {
            return Err(LockError::new(LockErrorKind::Unsupported, "exclusive and barging only"));
        }
        Ok(())
    }

    /// Lets the holder be replaced by the same with another lease.
    fn reset(&self, claim: &Claim, ttl: Duration) -> Renewal {
        if self.inner.release_now(claim, None) != Some(Released::Released) {
            return Renewal::NotMine;
        }
        self.force(&with_ttl(claim, ttl))
    }

    fn force(&self, claim: &Claim) -> Renewal {
        match now(self.inner.try_acquire(claim)) {
            Ok(Attempt::Granted(grant)) => Renewal::Renewed { sent: grant.sent, waiters: None },
            Ok(Attempt::Held(_)) => Renewal::NotMine,
            Err(error) => Renewal::Unknown(error),
        }
    }

    fn renew_one(&self, renew: &Renew<'_>) -> Renewal {
        let claim = self.read(renew.claim);
        let sent = self.capability().placement.clock().now();
        let inner = |ttl| now(self.inner.renew(&[Renew { claim: &claim, ttl }])).pop().expect("one");
        match self.fault {
            Fault::RenewResurrects => self.force(&with_ttl(&claim, renew.ttl)),
            Fault::RenewShortens => self.reset(&claim, renew.ttl),
            Fault::RenewDoesNothing => inner(Duration::ZERO),
            Fault::RenewLies => Renewal::Renewed { sent, waiters: None },
            Fault::KeptIsRenewed => match inner(renew.ttl) {
                Renewal::NotMine if self.holder(&claim).is_some_and(|holder| holder.owner == claim.owner) => {
                    Renewal::Renewed { sent, waiters: None }
                }
                answer => answer,
            },
            _ => inner(renew.ttl),
        }
    }
}

fn with_ttl(claim: &Claim, ttl: Duration) -> Claim {
    let mut claim = claim.clone();
    claim.ttl = ttl;
    claim
}

/// The memory store answers at the first poll.
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
        if self.limited {
            (can.shared, can.permits, can.fifo, can.fencing) = (false, false, false, false);
        }
        can
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.supports(claim)?;
        let claim = self.read(claim);
        let mine = self.holder(&claim).is_some_and(|holder| holder.owner == claim.owner);
        match self.fault {
            Fault::NotIdempotent if mine => return Ok(Attempt::Held(lock_core::backend::Held::default())),
            Fault::AcquireShortens if mine => {
                let _ = self.reset(&claim, claim.ttl);
            }
            Fault::DroppedTryTakes => {
                // A request that names its owner only once it is answered.
                let mut early = claim.clone();
                early.owner = lock_core::testkit::Claims::new()?.owner();
                let taken = self.inner.try_acquire(&early).await?;
                tokio::task::yield_now().await;
                if let Attempt::Granted(_) = taken {
                    self.inner.release_now(&early, None);
                }
            }
            Fault::TwoHolders if self.count().is_multiple_of(5) => {
                if let Some(holder) = self.holder(&claim) {
                    self.inner.release_now(&holder, None);
                }
            }
            _ => {}
        }
        let mut attempt = self.inner.try_acquire(&claim).await?;
        if let Attempt::Granted(grant) = &mut attempt {
            let falls = FencingToken::new(u64::MAX / 2 - self.count());
            if self.fault == Fault::TokensFall || self.fault == Fault::AnotherToken && mine {
                grant.fence = Some(falls);
            }
            if matches!(self.fault, Fault::NeverRunsOut | Fault::RunsOutEarly) {
                grant.lease = if self.fault == Fault::NeverRunsOut {
                    claim.ttl / 1_000
                } else {
                    claim.ttl.div_f64(0.9)
                };
            }
            self.state.lock().expect("no panic").holders.insert(claim.key.as_str().to_owned(), claim);
        }
        Ok(attempt)
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let mut answers: Vec<_> = batch.iter().map(|renew| self.renew_one(renew)).collect();
        if self.fault == Fault::BatchReversed {
            answers.reverse();
        }
        answers
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        Ok(self.release_now(claim, keep_for).expect("the memory store answers at once"))
    }

    fn release_now(&self, claim: &Claim, keep_for: Option<Duration>) -> Option<Released> {
        let mut claim = self.read(claim);
        let keep_for = keep_for.filter(|_| self.fault != Fault::KeepsNothing);
        if self.fault == Fault::ReleaseIgnoresOwner
            && let Some(holder) = self.holder(&claim)
        {
            claim = holder;
        }
        if self.fault == Fault::StaysInQueue
            && claim.queue == Queue::Fifo
            && !self.holder(&claim).is_some_and(|holder| holder.owner == claim.owner)
        {
            return Some(Released::Taken);
        }
        let released = self.inner.release_now(&claim, keep_for)?;
        Some(if self.fault == Fault::ReleaseLies { Released::Released } else { released })
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        if self.limited {
            return Err(LockError::new(LockErrorKind::Unsupported, "no tokens"));
        }
        match self.fault {
            Fault::TokenForAnybody => Ok(FencingToken::new(u64::MAX / 2 + self.count())),
            Fault::TokensFall => Ok(FencingToken::new(u64::MAX / 2 - self.count())),
            _ => self.inner.fence(&self.read(claim)).await,
        }
    }

    async fn changed(&self, claim: &Claim) {
        match self.fault {
            Fault::TellsNobody => tokio::time::sleep(claim.ttl).await,
            _ => self.inner.changed(&self.read(claim)).await,
        }
    }
}
