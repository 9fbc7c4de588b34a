//! The function that the tests and the workers run under a lock.

use std::time::Duration;

use lock_core::{LockError, LockManager, distributed_lock};
use lock_tests::Counter;

/// Adds one to `counter` under a lock that all processes share.
#[distributed_lock(key = "counter", ttl = "2s", strategy = "wait", manager = locks)]
pub async fn increment(locks: &LockManager, counter: &Counter) -> Result<(), LockError> {
    counter.add_one(Duration::ZERO).await;
    Ok(())
}

/// Like [`increment`], with the manager that was installed for the process.
#[allow(dead_code, reason = "every program that includes this file uses one of the two")]
#[distributed_lock(key = "counter", ttl = "2s", strategy = "wait")]
pub async fn increment_installed(counter: &Counter) -> Result<(), LockError> {
    counter.add_one(Duration::ZERO).await;
    Ok(())
}
