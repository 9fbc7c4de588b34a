//! Defines a memory store with switches that make it fail.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::fault::StoreFault;
use crate::backend::memory::Memory;
use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Finding, GrantId, Heartbeat, LatchState,
    LatchStep, Listed, Listener, LockInfo, Ping, Released, Renew, Renewal,
};
use crate::error::Result;
use crate::key::Key;
use crate::sync::{Mutex, MutexGuard};

/// A memory store that a test can make fail. Clones share one store.
#[derive(Clone, Debug, Default)]
pub(super) struct TestStore {
    pub(super) memory: Memory,
    switches: Arc<Mutex<Switches>>,
}

#[derive(Debug, Default)]
pub(super) struct Switches {
    /// Whether every call fails.
    pub(super) down: bool,
    /// How many of the next attempts to acquire fail.
    pub(super) failing: u32,
    pub(super) fail_renewals: bool,
    pub(super) fail_releases: bool,
    /// The fault with which calls fail.
    pub(super) fault: StoreFault,
    /// The duration of each call.
    pub(super) delay: Duration,
}

/// The kind of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Acquire,
    Renew,
    Release,
    Other,
}

impl Switches {
    fn fails(&mut self, call: Call) -> bool {
        match call {
            _ if self.down => true,
            Call::Acquire if self.failing > 0 => {
                self.failing -= 1;
                true
            }
            Call::Renew => self.fail_renewals,
            Call::Release => self.fail_releases,
            Call::Acquire | Call::Other => false,
        }
    }
}

impl TestStore {
    pub(super) fn switches(&self) -> MutexGuard<'_, Switches> {
        self.switches.lock()
    }

    /// Waits for the delay. Then awaits `made`, or returns the fault if a call of this kind fails now.
    async fn make<T>(&self, call: Call, made: impl Future<Output = T> + Send) -> Result<T, StoreFault> {
        let delay = self.switches().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let fault = {
            let mut switches = self.switches();
            switches.fails(call).then_some(switches.fault)
        };
        let Some(fault) = fault else { return Ok(made.await) };
        if fault == StoreFault::Unanswered {
            let _ = made.await;
        }
        Err(fault)
    }
}

impl Backend for TestStore {
    fn capability(&self) -> Capability {
        self.memory.capability()
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.make(Call::Acquire, self.memory.acquire(claim, ask)).await?
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        self.make(Call::Other, self.memory.heartbeat(claim)).await?
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let unknown = |fault: StoreFault| batch.iter().map(|_| Renewal::Unknown(fault.into())).collect();
        self.make(Call::Renew, self.memory.renew(batch)).await.unwrap_or_else(unknown)
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.make(Call::Release, self.memory.release(claim, keep_for)).await?
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.make(Call::Other, self.memory.fence(claim)).await?
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        self.make(Call::Other, self.memory.downgrade(claim))
            .await
            .unwrap_or_else(|fault| Renewal::Unknown(fault.into()))
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        self.make(Call::Other, self.memory.latch(key, step)).await?
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        self.make(Call::Other, self.memory.list(prefix, foreign, limit)).await?
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        self.make(Call::Other, self.memory.inspect(key)).await?
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        self.make(Call::Other, self.memory.force_release(key, id)).await?
    }

    async fn ping(&self) -> Result<Ping> {
        self.make(Call::Other, self.memory.ping()).await?
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.make(Call::Other, self.memory.doctor()).await?
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        background: Option<&tokio::runtime::Handle>,
    ) {
        self.memory.attach(process, listener, background);
    }

    async fn changed(&self, claim: &Claim) {
        self.memory.changed(claim).await;
    }

    async fn close(&self) {
        self.memory.close().await;
    }
}
