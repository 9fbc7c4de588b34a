use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::backend::{Ask, Attempt, Backend, Capability, Claim, Renew, Renewal};
use lock_core::{FencingToken, LockManager, Released, Result};
use tokio::time::Instant;

use crate::scripted::Scripted;
use crate::{is_free, millis};

#[tokio::test(start_paused = true)]
async fn a_held_lock_outlives_its_ttl_many_times() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(millis(300)).acquire().await.unwrap();
    for _ in 0..100 {
        tokio::time::sleep(millis(97)).await;
        assert!(guard.is_held());
        assert!(!is_free(&locks, "k").await);
    }
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn locks_of_many_ttls_are_all_kept() {
    let locks = LockManager::in_memory();
    let mut guards = Vec::new();
    for i in 0..500_u64 {
        let ttl = millis(30 + (i * 37) % 5_000);
        guards.push(locks.lock(format!("k{i}")).ttl(ttl).acquire().await.unwrap());
    }
    let start = Instant::now();
    while start.elapsed() < millis(20_000) {
        tokio::time::sleep(millis(11)).await;
        for guard in &guards {
            assert!(guard.is_held(), "{} after {:?}", guard.key(), start.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_lock_is_not_renewed() {
    let (locks, store) = Scripted::manager(|_| {});
    for drops in [false, true] {
        let before = store.renewals().len();
        let guard = locks.lock("k").ttl(millis(300)).acquire().await.unwrap();
        tokio::time::sleep(millis(950)).await;
        let while_held = store.renewals().len() - before;
        assert!((9..=12).contains(&while_held), "{while_held} renewals in 950 ms, one every 100 ms");
        if drops {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        tokio::time::sleep(millis(3_000)).await;
        assert_eq!(store.renewals().len() - before, while_held, "dropped: {drops}");
        assert!(is_free(&locks, "k").await);
    }
}

#[tokio::test(start_paused = true)]
async fn extend_gives_a_longer_lease_at_once_and_renewals_follow_it() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(millis(300)).renew(false).acquire().await.unwrap();
    guard.extend(millis(5_000)).await.unwrap();
    assert!(guard.remaining() > millis(4_900));
    tokio::time::sleep(millis(4_000)).await;
    guard.check().unwrap();
    assert!(guard.extend(std::time::Duration::ZERO).await.unwrap_err().to_string().contains("ttl is 0"));
    tokio::time::sleep(millis(1_001)).await;
    assert!(guard.extend(millis(100)).await.unwrap_err().is_lost());
}

/// A store that misbehaves: it grants short leases, and its first renewal panics.
#[derive(Debug)]
struct Rude {
    store: Memory,
    lease: Option<Duration>,
    panics: AtomicBool,
}

impl Backend for Rude {
    fn capability(&self) -> Capability {
        self.store.capability()
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        let mut claim = claim.clone();
        claim.ttl = self.lease.unwrap_or(claim.ttl);
        self.store.acquire(&claim, Ask::Try).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "on purpose");
        self.store.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.store.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.store.fence(claim).await
    }
}

async fn kept_for_a_minute(store: Rude) {
    let locks = LockManager::builder(store).build().unwrap();
    let guard = locks.lock("k").ttl(millis(9_000)).acquire().await.unwrap();
    for _ in 0..60 {
        tokio::time::sleep(millis(1_000)).await;
        guard.check().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_for_less_than_the_ttl_is_extended() {
    kept_for_a_minute(Rude {
        store: Memory::new(),
        lease: Some(millis(500)),
        panics: AtomicBool::new(false),
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_panics_is_tried_again() {
    kept_for_a_minute(Rude { store: Memory::new(), lease: None, panics: AtomicBool::new(true) }).await;
}
