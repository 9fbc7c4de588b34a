//! The option `label` with placeholders.

use std::fmt;

use lock_core::owner::OwnerRecord;
use lock_core::{LockError, LockManager, distributed_lock};

struct User {
    id: u64,
}

impl User {
    fn name(&self) -> String {
        format!("Ann {}", self.id)
    }
}

/// Returns the record of the holder of `key`.
async fn record(locks: &LockManager, key: &str) -> OwnerRecord {
    let found = locks.inspect(key).await.unwrap().expect("held");
    found.holders[0].record.clone().expect("a record")
}

async fn label(locks: &LockManager, key: &str) -> String {
    record(locks, key).await.label().expect("a label").to_owned()
}

#[distributed_lock(key = "order:<id>", label = "user <user.id>, request <_req>, <<b>", manager = locks)]
async fn pay(locks: &LockManager, id: u64, user: User, _req: &str) -> Result<String, LockError> {
    Ok(label(locks, "order:1").await)
}

#[distributed_lock(key = "order:<id>", label = "<user.name()>", handle = lock, manager = locks)]
async fn refund(locks: &LockManager, id: u64, user: User) -> Result<String, LockError> {
    lock.check()?;
    Ok(label(locks, "order:1").await)
}

#[tokio::test]
async fn a_label_shows_the_values_of_the_call_as_they_are() {
    let locks = LockManager::in_memory();
    for (req, shown) in [("af/09 ü", "user 7, request af/09 ü, <b>"), ("", "user 7, request , <b>")] {
        assert_eq!(pay(&locks, 1, User { id: 7 }, req).await.unwrap(), shown);
    }
    assert_eq!(refund(&locks, 1, User { id: 7 }).await.unwrap(), "Ann 7");
}

#[tokio::test]
async fn a_long_value_is_cut_and_does_not_refuse_the_call() {
    let shown = pay(&LockManager::in_memory(), 1, User { id: 7 }, &"é".repeat(5_000)).await.unwrap();
    assert!(shown.starts_with("user 7, request éé") && shown.ends_with("é…"), "{shown}");
    assert!(shown.len() <= 256, "{}", shown.len());
}

struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("half")?;
        Err(fmt::Error)
    }
}

#[distributed_lock(key = "order:1", label = "<it>!", manager = locks)]
async fn show(locks: &LockManager, it: Broken) -> Result<String, LockError> {
    Ok(label(locks, "order:1").await)
}

#[tokio::test]
async fn a_value_that_cannot_be_shown_does_not_refuse_the_call() {
    assert_eq!(show(&LockManager::in_memory(), Broken).await.unwrap(), "half!");
}
