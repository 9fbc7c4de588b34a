//! The kinds of locks: how many calls run at the same time.
//!
//! ```sh
//! cargo run -p lock-examples --example kinds                                                    # locks in memory
//! LOCK_URL=redis://127.0.0.1:6379/ cargo run -p lock-examples --features redis --example kinds  # the same on Redis
//! ```
//!
//! The program calls each function nine times at once, and prints how many of the calls ran at the same time.
#![allow(clippy::print_stdout, reason = "the report is what this program is for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{LockError, LockManager, distributed_lock};
use tokio::task::JoinSet;

/// Runs any number of calls at a time, while no call changes the page.
#[distributed_lock(key = "page:<id>", kind = "read", label = "show")]
async fn show(id: u64, crowd: Arc<Crowd>) -> Result<(), LockError> {
    crowd.work().await;
    Ok(())
}

/// Runs one call at a time, and no reader at the same time.
#[distributed_lock(key = "page:<id>", kind = "write", label = "change")]
async fn change(id: u64, crowd: Arc<Crowd>) -> Result<(), LockError> {
    crowd.work().await;
    Ok(())
}

/// Runs three calls at a time, on all machines together.
#[distributed_lock(key = "render", kind = "semaphore", permits = 3)]
async fn render(crowd: Arc<Crowd>) -> Result<(), LockError> {
    crowd.work().await;
    Ok(())
}

/// Runs one call at a time, in the order of their arrival.
#[distributed_lock(key = "checkout", kind = "fair")]
async fn checkout(crowd: Arc<Crowd>) -> Result<(), LockError> {
    crowd.work().await;
    Ok(())
}

/// Locks both accounts or none. Two transfers between the same accounts in opposite directions do not deadlock.
#[distributed_lock(keys = ["account:<from>", "account:<to>"])]
async fn transfer(from: u64, to: u64, crowd: Arc<Crowd>) -> Result<(), LockError> {
    crowd.work().await;
    Ok(())
}

/// The number of calls that run now, and the largest number so far.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Crowd {
    async fn work(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes nine calls at once.
async fn nine<F>(name: &str, call: impl Fn(u64, Arc<Crowd>) -> F) -> Result<(), LockError>
where
    F: Future<Output = Result<(), LockError>> + Send + 'static,
{
    let crowd = Arc::new(Crowd::default());
    let mut calls: JoinSet<_> = (0..9).map(|n| call(n, Arc::clone(&crowd))).collect();
    while let Some(called) = calls.join_next().await {
        called.expect("no call panics")?;
    }
    println!("{name:<32} {} at a time", crowd.most.load(Ordering::SeqCst));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let locks = LockManager::from_env_or("memory://").await?;
    locks.install()?;
    nine("read", |_, crowd| show(7, crowd)).await?;
    nine("write", |_, crowd| change(7, crowd)).await?;
    nine("semaphore of 3", |_, crowd| render(crowd)).await?;
    nine("fair", |_, crowd| checkout(crowd)).await?;
    nine("both keys, opposite directions", |n, crowd| transfer(1 + n % 2, 2 - n % 2, crowd)).await?;
    nine("both keys, three pairs", |n, crowd| transfer(n % 3, 10 + n % 3, crowd)).await?;
    locks.shutdown(Duration::from_secs(2)).await;
    Ok(())
}
