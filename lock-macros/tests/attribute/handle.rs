//! `handle = lock`: the body sees its own lock.

use std::time::Duration;

use lock_core::{FencingToken, LockError, LockManager, distributed_lock};

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
