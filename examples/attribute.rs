//! A function under a lock. `cargo run -p lock-examples --example attribute`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use lock_core::{LockError, LockManager, distributed_lock};

/// Runs one call at a time for each order, on all machines together. A second call waits for up to two seconds.
#[distributed_lock(key = "order:<id>", ttl = "500ms", strategy = "retry", wait = "2s")]
async fn ship(id: u64, who: &str) -> Result<(), LockError> {
    println!("{who} packs order {id}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    println!("{who} ships order {id}");
    Ok(())
}

/// Runs one call in the whole fleet. The calls that find the key held return `None`.
#[distributed_lock(key = "job:report", ttl = "3s", strategy = "skip")]
async fn report() -> Option<&'static str> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    Some("the report is written")
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    // The attribute uses the installed manager. `LOCK_URL` names the store; without it, the store is memory.
    LockManager::from_env().await?.install()?;

    let (first, second, third) = tokio::join!(ship(1, "ann"), ship(1, "bob"), ship(2, "eve"));
    first.and(second).and(third)?;

    let (first, second) = tokio::join!(report(), report());
    println!("one call ran the job, the other skipped it: {first:?}, {second:?}");
    assert_eq!(first.is_some(), second.is_none());
    Ok(())
}
