//! A store that has too little memory.

use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use lock_core::Result;
use lock_core::backend::memory::Memory;
use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Listener, Released, Renew, Renewal,
};

/// A store that reports with each release that it has evicted seven keys.
#[derive(Debug, Default)]
pub(crate) struct Evicting {
    store: Memory,
    listeners: Mutex<Vec<Weak<dyn Listener>>>,
}

impl Backend for Evicting {
    fn capability(&self) -> Capability {
        self.store.capability()
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        self.store.acquire(claim, Ask::Try).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.store.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        for listener in self.listeners.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            listener.upgrade().expect("the manager is there").keys_evicted(7);
        }
        self.store.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.store.fence(claim).await
    }

    fn attach(
        &self,
        _process: u128,
        listener: Weak<dyn Listener>,
        _background: Option<&tokio::runtime::Handle>,
    ) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }
}
