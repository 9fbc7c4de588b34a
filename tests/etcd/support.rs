//! Helpers that several topics share.

use std::time::Duration;

use lock_core::{LockError, LockGuard, LockManager, Released, strategy};
use lock_tests::{Bound, Etcd, PATIENCE, until_locked_again, wait_until_or};

/// A lease that no test outlives, so that only a release frees the key.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The shortest lease that etcd grants with its default election timeout.
pub(crate) const SHORTEST: Duration = Duration::from_secs(2);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Awaits `future`, which must complete within `bound`.
pub(crate) async fn within<T>(bound: Duration, what: &str, future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(bound, future).await;
    outcome.unwrap_or_else(|_| panic!("{what} took longer than {bound:?}"))
}

/// Waits for a random part of `longest`. The wait is more exact than a timer, which counts whole milliseconds.
pub(crate) async fn a_moment(longest: Duration) {
    let (since, moment) = (Bound::new(PATIENCE), longest.mul_f64(fastrand::f64()));
    while since.elapsed() < moment {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn manager(etcd: &Etcd) -> LockManager {
    connect(&etcd.url()).await
}

pub(crate) async fn connect(url: &str) -> LockManager {
    LockManager::connect(url).await.expect("the cluster takes locks")
}

/// Returns the error with which the URL is refused.
pub(crate) async fn refused(url: &str) -> LockError {
    let connecting = tokio::time::timeout(PATIENCE, LockManager::connect(url)).await;
    connecting.expect("a refusal takes no longer than a dial").expect_err("no connection")
}

/// Tries once, with a lease that no test outlives.
pub(crate) async fn try_once(locks: &LockManager, key: &str) -> Result<LockGuard, LockError> {
    locks.lock(key).ttl(LONG).strategy(strategy::fail_fast()).acquire().await
}

/// Acquires `key` for [`LONG`], and releases it.
pub(crate) async fn cycle(locks: &LockManager, key: &str) {
    let guard = try_once(locks, key).await.expect("the key is free");
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

/// Repeats [`cycle`] until the cluster grants locks.
pub(crate) async fn works_again(locks: &LockManager, key: &str) {
    until_locked_again(async || try_once(locks, key).await).await;
}

/// Returns the lease of the entry of a key, or `None` if there is no entry.
pub(crate) fn lease_of(etcd: &Etcd, key: &str) -> Option<i64> {
    let text = etcd.ctl(&["get", &format!("{key}/"), "--prefix", "-w", "fields"]);
    let line = text.lines().find_map(|line| line.strip_prefix("\"Lease\" : "));
    line.and_then(|id| id.trim().parse().ok())
}

/// Waits until the cluster has no keys.
pub(crate) async fn empty(etcd: &Etcd, within: Duration) {
    let report = || format!("{:?}", etcd.keys());
    wait_until_or("no key is left", within, async || etcd.keys().is_empty(), report).await;
}
