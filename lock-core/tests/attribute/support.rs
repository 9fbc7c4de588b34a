//! Shared helpers.

use lock_core::{LockGuard, LockManager};

/// Holds `key` in another task, so that the calling task does not enter it again.
pub(crate) async fn hold(locks: &LockManager, key: &str) -> LockGuard {
    let request = locks.lock(key);
    tokio::spawn(request.acquire()).await.expect("the holder ran").expect("the key was free")
}

/// Returns whether `key` is held, as seen from another task.
pub(crate) async fn is_held(locks: &LockManager, key: &str) -> bool {
    let request = locks.lock(key);
    let guard =
        tokio::spawn(request.try_acquire()).await.expect("the asker ran").expect("the store answered");
    match guard {
        Some(guard) => {
            guard.release().await.expect("released");
            false
        }
        None => true,
    }
}

pub(crate) fn assert_send<T: Send>(value: T) -> T {
    value
}
