//! Helpers that several topics share.

use std::time::Duration;

use lock_core::{LockError, LockGuard, LockManager, strategy};
use lock_tests::{PostgresServer, until_locked_again, wait_until};

/// A lease that no test outlives, so that only a release frees the key.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) async fn manager(server: &PostgresServer) -> LockManager {
    connect(&server.url()).await
}

pub(crate) async fn connect(url: &str) -> LockManager {
    LockManager::connect(url).await.expect("the server takes locks")
}

/// Awaits `future`, which must complete within `bound`.
pub(crate) async fn within<T>(bound: Duration, what: &str, future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(bound, future).await;
    outcome.unwrap_or_else(|_| panic!("{what} took longer than {bound:?}"))
}

/// Tries once, with a lease that no test outlives.
pub(crate) async fn try_once(locks: &LockManager, key: &str) -> Result<LockGuard, LockError> {
    locks.lock(key).ttl(LONG).strategy(strategy::fail_fast()).acquire().await
}

/// Acquires `key` for [`LONG`], and releases it.
pub(crate) async fn cycle(locks: &LockManager, key: &str) {
    let guard = try_once(locks, key).await.expect("the key is free");
    assert_eq!(guard.release().await.expect("an answer"), lock_core::Released::Released);
}

/// Repeats [`cycle`] until the server grants locks.
pub(crate) async fn works_again(locks: &LockManager, key: &str) {
    until_locked_again(async || try_once(locks, key).await).await;
}

/// Waits until the server has no grants and no waiters.
pub(crate) async fn empty(server: &PostgresServer, within: Duration) {
    const LEFT: &str = "SELECT (SELECT count(*) FROM lock_core.holders WHERE expires_at > clock_timestamp()) + (SELECT count(*) \
                        FROM lock_core.waiters WHERE deadline > clock_timestamp())";
    wait_until("nothing is left", within, async || server.sql(LEFT) == "0").await;
}
