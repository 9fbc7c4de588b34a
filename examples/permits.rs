//! A semaphore with calls that acquire several permits at once. `cargo run -p lock-examples --example permits`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use lock_core::{LockError, LockManager, distributed_lock};
use tokio::time::sleep;

/// The memory for all reports of the fleet, in parts. Every call must name the same number of parts.
const PARTS: u32 = 8;

/// Makes a small report, which takes one part.
#[distributed_lock(key = "report", kind = "semaphore", permits = PARTS)]
async fn small() -> Result<(), LockError> {
    sleep(Duration::from_millis(50)).await;
    Ok(())
}

/// Makes a large report, which takes one part for each chapter. The call acquires all of them at once, or none.
#[distributed_lock(key = "report", kind = "semaphore", permits = PARTS, take = chapters)]
async fn large(chapters: u32) -> Result<(), LockError> {
    sleep(Duration::from_millis(50)).await;
    Ok(())
}

/// Prints the number of free parts, every 25 ms.
async fn watch(locks: &LockManager) -> Result<(), LockError> {
    for _ in 0..5 {
        sleep(Duration::from_millis(25)).await;
        println!("{} of {PARTS} parts are free", locks.semaphore("report", PARTS).available().await?);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let locks = LockManager::from_env_or("memory://").await?;
    locks.install()?;

    // Two large calls do not fit at the same time. The second one waits, and is served before later calls.
    let (one, two, three, shown) = tokio::join!(large(5), large(5), small(), watch(&locks));
    one.and(two).and(three).and(shown)?;

    // A call that asks for more permits than there are is refused at once.
    let refused = large(9).await.expect_err("there are eight");
    println!("nine chapters: {refused}");
    locks.shutdown(Duration::from_secs(2)).await;
    Ok(())
}
