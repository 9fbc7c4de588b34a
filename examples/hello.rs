//! The smallest program with a lock. `cargo run -p lock-examples --example hello`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use lock_core::{LockError, LockManager};

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let locks = LockManager::in_memory(); // or LockManager::connect("redis://127.0.0.1/").await?

    // Runs the future under the lock, then releases the lock.
    let sum = locks.lock("account:7").run(async { 20 + 22 }).await?;
    println!("under the lock: {sum}");

    // A guard holds the lock until the program releases it.
    let guard = locks.lock("account:7").acquire().await?;
    let second = locks.lock("account:7").try_acquire().await?;
    println!("a second try while it is held: {}", if second.is_none() { "refused" } else { "granted" });
    guard.release().await?;
    Ok(())
}
