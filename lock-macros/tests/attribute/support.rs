//! What the topics share.

use lock_core::{LockGuard, LockManager};

/// Holds `key` from outside of the calling task, so that nothing re-enters it.
pub(crate) async fn hold(locks: &LockManager, key: &str) -> LockGuard {
    let request = locks.lock(key);
    tokio::spawn(request.acquire()).await.expect("the holder ran").expect("the key was free")
}

/// Whether somebody holds `key`, asked from outside of the calling task.
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
