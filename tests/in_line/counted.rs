//! A store that counts the places it gives, where its server does not.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, GrantId, Listed, Listener, LockInfo, Released,
    Renew, Renewal,
};
use lock_core::key::Key;
use lock_core::owner::Owner;
use lock_core::{LockManager, Result};
use tokio::runtime::Handle;

use super::Places;

/// The owners of which a store has said that they wait, in a place of their own or in one that they share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted(Arc<Mutex<HashSet<Owner>>>);

impl Counted {
    /// Returns a manager that uses `store`.
    pub(crate) fn manager(&self, store: impl Backend) -> LockManager {
        let counting = Counting { store, counted: self.clone() };
        LockManager::builder(counting).build().expect("the settings are right")
    }

    fn note(&self, owner: Owner) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(owner);
    }
}

impl Places for Counted {
    fn placed(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len().try_into().expect("few")
    }
}

#[derive(Debug)]
struct Counting<B> {
    store: B,
    counted: Counted,
}

impl<B: Backend> Backend for Counting<B> {
    fn capability(&self) -> Capability {
        self.store.capability()
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        let answer = self.store.acquire(claim, ask).await;
        if let Ok(Attempt::Held(held)) = &answer
            && (held.queued_at.is_some() || held.behind.is_some())
        {
            self.counted.note(claim.owner);
        }
        answer
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.store.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.store.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.store.fence(claim).await
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        self.store.downgrade(claim).await
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        self.store.list(prefix, foreign, limit).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        self.store.inspect(key).await
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        self.store.force_release(key, id).await
    }

    fn attach(&self, process: u128, listener: Weak<dyn Listener>, background: Option<&Handle>) {
        self.store.attach(process, listener, background);
    }

    async fn changed(&self, claim: &Claim) {
        self.store.changed(claim).await;
    }

    async fn others_wait(&self, claim: &Claim) -> Result<bool> {
        self.store.others_wait(claim).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
