//! Many locks on a majority of which one server is stuck.

use std::time::Duration;

use lock_core::{LockGuard, ManagerBuilder};
use lock_tests::{Bound, PATIENCE, RedisServer, wait_until};
use tokio::task::JoinSet;

use crate::support::{ms, new_cluster};

/// 10,000 of them are in `lock-core/benches/renewal.rs`.
const LOCKS: usize = 1_000;
const TTL: Duration = ms(3_000);

/// How many of the locks a server has.
fn on(server: &RedisServer) -> usize {
    server.keys().iter().filter(|key| key.starts_with("held:")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_server_costs_none_of_many_locks() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    new_cluster(&servers.iter().collect::<Vec<_>>(), TTL).await;
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = format!("redlock://{}/?max_ttl=3s", hosts.join(","));
    let locks = ManagerBuilder::connect(&url).await.expect("all are up").ttl(TTL).build().expect("a ttl");
    let mut tasks = JoinSet::new();
    for number in 0..LOCKS {
        let locks = locks.clone();
        tasks.spawn(async move { locks.lock(format!("held:{number}")).acquire().await.expect("free") });
    }
    let guards = tasks.join_all().await;
    // A grant needs two of them; the third has it a moment later.
    wait_until("each has all of them", PATIENCE, async || servers.iter().all(|server| on(server) == LOCKS))
        .await;
    servers[2].stop();
    // Three leases, in each of which every lock is renewed several times.
    let bound = Bound::new(PATIENCE);
    while bound.elapsed() < TTL * 3 {
        assert_eq!(guards.iter().filter(|guard| guard.is_held()).count(), LOCKS, "a lock was lost");
        for server in &servers[..2] {
            assert_eq!(on(server), LOCKS, "a lock lapsed on a server that is well");
        }
        tokio::time::sleep(ms(50)).await;
    }
    // With one renewal after another in vain, less would be left.
    let left = guards.iter().map(LockGuard::remaining).min().expect("there are some");
    assert!(left > TTL / 4, "{left:?}");
    drop(guards);
}
