use lock_core::LockManager;
use tokio::time::Instant;

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
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(millis(300)).acquire().await.unwrap();
    tokio::time::sleep(millis(400)).await;
    guard.release().await.unwrap();
    tokio::time::sleep(millis(400)).await;
    assert!(is_free(&locks, "k").await);
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
