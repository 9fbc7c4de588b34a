//! The option `handle = lock`, which gives the body access to its own lock.

use std::time::Duration;

use lock_core::{FencingToken, LockError, LockGuard, LockManager, distributed_lock};

use crate::support::assert_send;

#[distributed_lock(key = "account:<id>", ttl = "2s", handle = lock, manager = locks)]
async fn fenced(locks: &LockManager, id: u64) -> Result<(String, FencingToken), LockError> {
    assert!(lock.is_held());
    assert!(lock.remaining() <= Duration::from_secs(2));
    Ok((format!("{}:{id}", lock.key()), lock.fencing_token().await?))
}

#[distributed_lock(key = "moved", handle = lock, manager = locks)]
async fn taken_apart(locks: &LockManager, mut names: Vec<String>) -> Result<Vec<String>, LockError> {
    let elsewhere = tokio::spawn(async move { lock.check().map(|()| lock.key().to_owned()) });
    names.push(elsewhere.await.expect("the task ran")?);
    Ok(names)
}

#[tokio::test]
async fn the_handle_is_that_of_the_lock() {
    let locks = LockManager::in_memory();
    let (key, first) = assert_send(fenced(&locks, 7)).await.unwrap();
    assert_eq!(key, "account:7:7");
    let (_, second) = fenced(&locks, 7).await.unwrap();
    assert!(second > first, "{second:?} {first:?}");
}

#[tokio::test]
async fn the_handle_may_go_to_another_task() {
    let locks = LockManager::in_memory();
    assert_eq!(taken_apart(&locks, vec!["a".to_owned()]).await.unwrap(), ["a", "moved"]);
}

#[distributed_lock(key = "early", ttl = "2s", renew = false, strategy = "fail_fast", handle = lock, manager = locks)]
async fn released_early(locks: &LockManager, others: &LockManager) -> Result<LockGuard, LockError> {
    lock.extend(Duration::from_secs(60)).await?;
    assert!(lock.remaining() > Duration::from_secs(50));
    lock.release_early().await?;
    others.lock("early").acquire().await
}

#[tokio::test]
async fn the_body_extends_its_lock_and_releases_it_early() {
    let locks = LockManager::in_memory();
    let other = released_early(&locks, &locks).await.unwrap();
    assert!(other.is_held() && locks.lock("early").try_acquire().await.unwrap().is_none());
    assert!(released_early(&locks, &locks).await.unwrap_err().is_contended());
}
