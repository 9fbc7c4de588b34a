//! Tests requests that cannot be sent, because the connection is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::backend::{Ask, Attempt, Backend, Capability, Claim, FencingToken, Released, Renew, Renewal};
use lock_core::{LockError, LockManager, strategy};

use crate::millis;

/// A store whose connection can be switched off. Requests then wait and are not sent.
#[derive(Clone, Debug, Default)]
struct Offline {
    memory: Memory,
    is_offline: Arc<AtomicBool>,
    releases: Arc<AtomicUsize>,
}

impl Backend for Offline {
    fn capability(&self) -> Capability {
        let mut capability = self.memory.capability();
        capability.marks_sent = true;
        capability
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt, LockError> {
        if self.is_offline.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        claim.mark_sent();
        self.memory.acquire(claim, ask).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.memory.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep: Option<Duration>) -> Result<Released, LockError> {
        self.releases.fetch_add(1, Ordering::Relaxed);
        self.memory.release(claim, keep).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken, LockError> {
        self.memory.fence(claim).await
    }

    async fn changed(&self, claim: &Claim) {
        self.memory.changed(claim).await;
    }
}

/// A waiter repeats its request over a lost connection, and is then dropped. The repeated request was not sent, but an
/// earlier request has left an entry in the store's queue.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_could_not_ask_again_leaves_the_queue() {
    let store = Offline::default();
    let locks = LockManager::builder(store.clone()).build().unwrap();
    let held = locks.fair("k").ttl(millis(600_000)).acquire().await.unwrap();
    let mut waiter = Box::pin(locks.fair("k").ttl(millis(600_000)).strategy(strategy::wait()).acquire());
    assert!(tokio::time::timeout(millis(5), &mut waiter).await.is_err(), "it waits");
    store.is_offline.store(true, Ordering::Relaxed);
    // The waiter repeats its request within this time.
    assert!(tokio::time::timeout(millis(61_000), &mut waiter).await.is_err());
    drop(waiter);
    tokio::time::sleep(millis(100)).await;
    assert_eq!(store.releases.load(Ordering::Relaxed), 1);
    held.release().await.unwrap();
}
