//! Wraps the memory store: counts its requests, and has switches that make it fail or panic.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::backend::{Ask, Attempt, Backend, Capability, Claim, Heartbeat, Listener, Renew, Renewal};
use lock_core::key::Key;
use lock_core::{
    Finding, GrantId, Listed, LockError, LockErrorKind, LockInfo, LockManager, Ping, Released, Result,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) memory: Memory,
    pub(crate) lists: Arc<AtomicUsize>,
    pub(crate) doctors: Arc<AtomicUsize>,
    pub(crate) down: Arc<AtomicBool>,
    pub(crate) panics: Arc<AtomicBool>,
    /// The duration of each list request.
    pub(crate) takes: Duration,
}

impl Counted {
    pub(crate) fn manager(&self) -> LockManager {
        LockManager::builder(self.clone()).service("shop").build().expect("a manager")
    }

    pub(crate) fn lists(&self) -> usize {
        self.lists.load(Ordering::SeqCst)
    }

    fn up(&self) -> Result<()> {
        assert!(!self.panics.load(Ordering::SeqCst), "the test lets the store panic");
        match self.down.load(Ordering::SeqCst) {
            true => Err(LockError::new(LockErrorKind::Unavailable, "the test has made it unreachable")),
            false => Ok(()),
        }
    }
}

impl Backend for Counted {
    fn capability(&self) -> Capability {
        self.memory.capability()
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.memory.acquire(claim, ask).await
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        self.memory.heartbeat(claim).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.memory.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.memory.release(claim, keep_for).await
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.takes).await;
        self.up()?;
        self.memory.list(prefix, foreign, limit).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        self.memory.inspect(key).await
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        self.up()?;
        self.memory.force_release(key, id).await
    }

    async fn ping(&self) -> Result<Ping> {
        self.up()?;
        self.memory.ping().await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.doctors.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.up()?;
        self.memory.doctor().await
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
