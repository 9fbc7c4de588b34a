//! Who may be inside together: the kinds of locks, and several keys at once.
//!
//! ```sh
//! cargo run -p lock-examples --example kinds                                                    # locks in memory
//! LOCK_URL=redis://127.0.0.1:6379/ cargo run -p lock-examples --features redis --example kinds  # the same on Redis
//! ```
//!
//! Each function is called nine times at the same moment, and the program says how many of the calls were inside
//! together.
#![allow(clippy::print_stdout, reason = "the report is what this program is for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{LockError, LockManager, distributed_lock};
use tokio::task::JoinSet;

/// Any number at a time, while nobody changes the page.
#[distributed_lock(key = "page:<id>", kind = "read", label = "show")]
async fn show(id: u64, crowd: Arc<Crowd>) -> Result<(), LockError> {
    crowd.work().await;
    Ok(())
}

/// One at a time, and nobody reads beside it.
#[distributed_lock(key = "page:<id>", kind = "write", label = "change")]
async fn change(id: u64, crowd: Arc<Crowd>) -> Result<(), LockError> {
    crowd.work().await;
    Ok(())
}

/// Three at a time, of all machines together.
#[distributed_lock(key = "render", kind = "semaphore", permits = 3)]
async fn render(crowd: Arc<Crowd>) -> Result<(), LockError> {
    crowd.work().await;
    Ok(())
}

/// One at a time, and whoever came first goes first.
#[distributed_lock(key = "checkout", kind = "fair")]
async fn checkout(crowd: Arc<Crowd>) -> Result<(), LockError> {
    crowd.work().await;
    Ok(())
}

/// Both accounts or none. Two transfers between the same accounts, one there and one back, never wait for each other.
#[distributed_lock(keys = ["account:<from>", "account:<to>"])]
async fn transfer(from: u64, to: u64, crowd: Arc<Crowd>) -> Result<(), LockError> {
    crowd.work().await;
    Ok(())
}

/// How many are at work, and how many were at most.
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

/// Calls nine times at the same moment.
async fn nine<F>(name: &str, call: impl Fn(u64, Arc<Crowd>) -> F) -> Result<(), LockError>
where
    F: Future<Output = Result<(), LockError>> + Send + 'static,
{
    let crowd = Arc::new(Crowd::default());
    let mut calls: JoinSet<_> = (0..9).map(|n| call(n, Arc::clone(&crowd))).collect();
    while let Some(called) = calls.join_next().await {
        called.expect("no call panics")?;
    }
    println!("{name:<28} {} at a time", crowd.most.load(Ordering::SeqCst));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let locks = LockManager::from_env().await?;
    locks.install()?;
    nine("read", |_, crowd| show(7, crowd)).await?;
    nine("write", |_, crowd| change(7, crowd)).await?;
    nine("semaphore of 3", |_, crowd| render(crowd)).await?;
    nine("fair", |_, crowd| checkout(crowd)).await?;
    nine("both keys, there and back", |n, crowd| transfer(1 + n % 2, 2 - n % 2, crowd)).await?;
    nine("both keys, three pairs", |n, crowd| transfer(n % 3, 10 + n % 3, crowd)).await?;
    locks.shutdown(Duration::from_secs(2)).await;
    Ok(())
}
