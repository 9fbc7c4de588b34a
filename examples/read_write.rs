//! Many readers or one writer. The writer becomes a reader. `cargo run -p lock-examples --example read_write`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use lock_core::{LockError, LockManager};

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let locks = LockManager::from_env_or("memory://").await?;

    let first = locks.read("page:7").acquire().await?;
    let second = locks.read("page:7").acquire().await?;
    let writer = locks.write("page:7").try_acquire().await?;
    println!("next to two readers, a writer is {}", if writer.is_none() { "refused" } else { "admitted" });
    first.release().await?;
    second.release().await?;

    let writer = locks.write("page:7").acquire().await?;
    let reader = locks.read("page:7").try_acquire().await?;
    println!("next to a writer, a reader is {}", if reader.is_none() { "refused" } else { "admitted" });

    // No other writer can run between the change and the read.
    let reading = writer.downgrade().await?;
    let reader = locks.read("page:7").acquire().await?;
    println!("after the downgrade, both read: {}", reading.is_held() && reader.is_held());
    reader.release().await?;
    reading.release().await?;
    Ok(())
}
