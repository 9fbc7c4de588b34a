//! A function under a lock. `cargo run -p lock-examples --example attribute`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use lock_core::{LockError, LockManager, distributed_lock};
use tokio::time::sleep;

/// Runs one call at a time for each order, on all machines together. A second call waits for up to ten seconds. The
/// label is for people: it is shown in errors and to operators.
#[distributed_lock(key = "order:<id>", ttl = "5s", wait = "10s", label = "<who> ships <id>", handle = lock)]
async fn ship(id: u64, who: &str) -> Result<(), LockError> {
    println!("{who} packs order {id}");
    sleep(Duration::from_millis(50)).await;
    println!("{who} ships order {id}");
    // The letter needs no lock, so the next call runs meanwhile.
    lock.release_early().await?;
    sleep(Duration::from_millis(50)).await;
    Ok(())
}

/// Runs one call in the whole fleet. The calls that find the key held return `None`.
#[distributed_lock(key = "job:report", ttl = "3s", strategy = "skip")]
async fn report() -> Option<&'static str> {
    sleep(Duration::from_millis(20)).await;
    Some("the report is written")
}

/// Imports a shard. The label shows operators which worker has the lock.
#[distributed_lock(key = "import:<shard>", ttl = "3s", label = "import-<shard>", handle = lock)]
async fn import(shard: u64) -> Result<Duration, LockError> {
    // The file turns out to be large. A longer lease needs fewer renewals, and gives the store more time to answer.
    lock.extend(Duration::from_secs(60)).await?;
    Ok(lock.remaining())
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    // The attribute uses the installed manager. `LOCK_URL` names the store; without it, the store is `memory://`.
    LockManager::from_env_or("memory://").await?.install()?;
    let locks = LockManager::current()?;

    let look = async {
        sleep(Duration::from_millis(25)).await;
        locks.inspect("order:2").await
    };
    let (first, second, third, seen) = tokio::join!(ship(1, "ann"), ship(1, "bob"), ship(2, "eve"), look);
    first.and(second).and(third)?;
    let holder = seen?.and_then(|seen| seen.holders.into_iter().next()?.record);
    println!("who had order 2: {}", holder.as_ref().and_then(|holder| holder.label()).unwrap_or("nobody"));

    let (first, second) = tokio::join!(report(), report());
    println!("one call ran the job, the other skipped it: {first:?}, {second:?}");
    assert_eq!(first.is_some(), second.is_none());
    println!("the import may take {:?}", import(3).await?);
    Ok(())
}
