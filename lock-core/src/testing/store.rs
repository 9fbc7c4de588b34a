//! The memory store with switches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::backend::memory::Memory;
use crate::backend::{
    Attempt, Backend, Beat, Capability, Claim, Ear, FencingToken, LatchState, LatchStep, Released, Renew,
    Renewal,
};
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;

/// What a test has told the store to do. Clones are one store.
#[derive(Clone, Debug, Default)]
pub(super) struct TestStore {
    pub(super) memory: Memory,
    switches: Arc<Mutex<Switches>>,
}

#[derive(Debug, Default)]
pub(super) struct Switches {
    /// Every call fails.
    pub(super) down: bool,
    /// So many of the next attempts to acquire fail.
    pub(super) failing: u32,
    pub(super) fail_renewals: bool,
    pub(super) fail_releases: bool,
    /// How long each call takes.
    pub(super) delay: Duration,
}

/// What kind of call this is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Acquire,
    Renew,
    Release,
    Other,
}

impl TestStore {
    pub(super) fn switches(&self) -> MutexGuard<'_, Switches> {
        self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes its time, then says whether the call may go on.
    async fn begin(&self, call: Call) -> Result<()> {
        let delay = self.switches().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let mut switches = self.switches();
        let fails = switches.down
            || match call {
                Call::Acquire if switches.failing > 0 => {
                    switches.failing -= 1;
                    true
                }
                Call::Renew => switches.fail_renewals,
                Call::Release => switches.fail_releases,
                Call::Acquire | Call::Other => false,
            };
        if fails { Err(failure()) } else { Ok(()) }
    }
}

fn failure() -> LockError {
    LockError::new(LockErrorKind::Unavailable, "the test has taken the store down").nothing_taken()
}

impl Backend for TestStore {
    fn capability(&self) -> Capability {
        self.memory.capability()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.begin(Call::Acquire).await?;
        self.memory.try_acquire(claim).await
    }

    async fn grab(&self, claim: &Claim) -> Result<Attempt> {
        self.begin(Call::Acquire).await?;
        self.memory.grab(claim).await
    }

    async fn enqueue(&self, claim: &Claim, room: Option<usize>) -> Result<Attempt> {
        self.begin(Call::Acquire).await?;
        self.memory.enqueue(claim, room).await
    }

    async fn beat(&self, claim: &Claim) -> Result<Beat> {
        self.begin(Call::Other).await?;
        self.memory.beat(claim).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        match self.begin(Call::Renew).await {
            Ok(()) => self.memory.renew(batch).await,
            Err(_) => batch.iter().map(|_| Renewal::Unknown(failure())).collect(),
        }
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.begin(Call::Release).await?;
        self.memory.release(claim, keep_for).await
    }

    fn release_now(&self, claim: &Claim, keep_for: Option<Duration>) -> Option<Released> {
        let switches = self.switches();
        let at_once = !switches.down && !switches.fail_releases && switches.delay.is_zero();
        drop(switches);
        at_once.then(|| self.memory.release_now(claim, keep_for)).flatten()
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.begin(Call::Other).await?;
        self.memory.fence(claim).await
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        match self.begin(Call::Other).await {
            Ok(()) => self.memory.downgrade(claim).await,
            Err(error) => Renewal::Unknown(error),
        }
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        self.begin(Call::Other).await?;
        self.memory.latch(key, step).await
    }

    fn listen(&self, process: u128, ear: Weak<dyn Ear>) {
        self.memory.listen(process, ear);
    }

    async fn changed(&self, claim: &Claim) {
        self.memory.changed(claim).await;
    }

    async fn close(&self) {
        self.memory.close().await;
    }
}
