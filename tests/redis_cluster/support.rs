use std::time::Duration;

use lock_core::{LockGuard, LockManager, strategy};
use lock_tests::{PATIENCE, RedisBuilder, RedisCluster};

/// A lease that no test outlives.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// How often a lock of [`LONG`] is renewed, if a test waits for its renewals.
pub(crate) const RENEWS: Duration = Duration::from_secs(1);
/// The time limit for a failover. The nodes wait for a second (see [`soon_dead`]), vote and promote. `following.rs`
/// tests how soon the library follows.
pub(crate) const FAILOVER: Duration = PATIENCE;

/// Makes a node count as dead after a second of silence, for tests that need a failover.
pub(crate) fn soon_dead(_: usize, node: RedisBuilder) -> RedisBuilder {
    node.config("cluster-node-timeout", "1000")
}

pub(crate) async fn connect(cluster: &RedisCluster) -> LockManager {
    LockManager::connect(&cluster.url()).await.expect("the cluster takes locks")
}

/// Acquires the lock as soon as a node grants it.
pub(crate) async fn locked(locks: &LockManager, key: &str) -> LockGuard {
    let request = locks.lock(key).ttl(LONG).fencing(true).strategy(strategy::wait());
    let acquired = tokio::time::timeout(FAILOVER, request.acquire()).await;
    acquired.expect("a failover is over").expect("granted")
}

/// Returns a key on the primary with this number. The key starts with `name`.
pub(crate) fn key_on(cluster: &RedisCluster, number: usize, name: &str) -> String {
    let named = (0..).map(|at| format!("{name}{at}"));
    named.into_iter().find(|key| cluster.number_of(key) == number).expect("one of them")
}
