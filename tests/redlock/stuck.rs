//! A majority with stuck servers: the wait of an attempt for them, and their effect on many locks.

use std::time::Duration;

use lock_core::{LockErrorKind, LockGuard, LockManager, ManagerBuilder};
use lock_tests::{Bound, PATIENCE, RedisServer, wait_until};
use tokio::task::JoinSet;

use crate::support::{Client, ms, new_cluster};

/// The number of attempts that wait for a server without success.
const ATTEMPTS: usize = 6;
/// The ttl of these attempts. An attempt waits for a majority for a tenth of it, which is a second.
const LONG: Duration = ms(10_000);

async fn three() -> Vec<RedisServer> {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    new_cluster(&servers.iter().collect::<Vec<_>>(), LONG).await;
    servers
}

/// Connects a manager that gives its servers two seconds for each call.
async fn connect(servers: &[RedisServer], more: &str) -> LockManager {
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = format!("redlock://{}/?max_ttl=10s&timeout=2s{more}", hosts.join(","));
    LockManager::connect(&url).await.expect("a majority is up")
}

#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
fn report(what: &str, took: &[Duration]) {
    println!("{what}: {took:?}");
}

/// One server grants and one refuses, so only the third server could decide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_server_is_waited_for_briefly_and_only_where_the_others_disagree() {
    let servers = three().await;
    let other = Client::of(&servers[0], LONG).await;
    let mut managers = Vec::new();
    for number in 0..ATTEMPTS {
        other.take(&format!("k{number}"), LONG).await;
        managers.push(connect(&servers, "").await);
    }
    servers[2].stop();
    let (mut split, mut free) = (Vec::new(), Vec::new());
    // No manager knows yet that the server is stuck.
    for (number, locks) in managers.iter().enumerate() {
        let bound = Bound::new(PATIENCE);
        let attempt = locks.lock(format!("k{number}")).ttl(LONG).try_acquire().await;
        split.push(bound.elapsed());
        assert!(attempt.expect("two have answered").is_none(), "one of two is no majority");
        let bound = Bound::new(PATIENCE);
        let guard = locks.lock(format!("free{number}")).ttl(LONG).try_acquire().await;
        free.push(bound.elapsed());
        drop(guard.expect("two have answered").expect("two of three have granted it"));
    }
    report("one yes, one no, one stuck", &split);
    report("two yes, one stuck", &free);
    // The test uses the minimum of each, so that other processes on the machine do not affect the result.
    let least = |took: &[Duration]| took.iter().copied().min().expect("there are some");
    assert!(least(&split) < ms(500), "{split:?}");
    assert!(least(&free) < ms(500), "{free:?}");
    servers[2].cont();
    wait_until("what the stuck one granted too late is given back", PATIENCE, async || {
        servers[2].keys() == ["lock:voter"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_timeout_bounds_an_attempt_that_finds_no_majority() {
    let servers = three().await;
    let locks = connect(&servers, "&node_timeout=50ms").await;
    servers[1].stop();
    servers[2].stop();
    let mut took = Vec::new();
    for number in 0..ATTEMPTS {
        let bound = Bound::new(PATIENCE);
        let attempt = locks.lock(format!("k{number}")).ttl(LONG).try_acquire().await;
        took.push(bound.elapsed());
        assert_eq!(attempt.expect_err("one of three").kind(), LockErrorKind::NoQuorum);
    }
    report("two stuck, node_timeout=50ms", &took);
    assert!(took.iter().min().expect("there are some") < &ms(500), "{took:?}");
    servers[1].cont();
    let guard = locks.lock("k0").ttl(LONG).acquire().await.expect("two of three");
    guard.release().await.expect("an answer");
}

/// The number of locks. `lock-core/benches/renewal.rs` uses 10,000.
const LOCKS: usize = 1_000;
const TTL: Duration = ms(6_000);

/// Returns the number of these locks on a server.
fn on(server: &RedisServer) -> usize {
    server.keys().iter().filter(|key| key.starts_with("held:")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_server_costs_none_of_many_locks() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    new_cluster(&servers.iter().collect::<Vec<_>>(), TTL).await;
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = format!("redlock://{}/?max_ttl=6s", hosts.join(","));
    let locks = ManagerBuilder::connect(&url).await.expect("all are up").ttl(TTL).build().expect("a ttl");
    let mut tasks = JoinSet::new();
    for number in 0..LOCKS {
        // By default a request gives up after 5 s. A busy machine may answer the last of so many requests later.
        let request = locks.lock(format!("held:{number}")).wait(PATIENCE);
        tasks.spawn(async move { request.acquire().await.expect("it is free") });
    }
    let guards = tasks.join_all().await;
    // A grant needs two of the servers. The third server gets the lock a moment later.
    wait_until("each has all of them", PATIENCE, async || servers.iter().all(|server| on(server) == LOCKS))
        .await;
    servers[2].stop();
    // The test lasts for three leases. Every lock is renewed several times in each.
    let bound = Bound::new(PATIENCE);
    while bound.elapsed() < TTL * 3 {
        assert_eq!(guards.iter().filter(|guard| guard.is_held()).count(), LOCKS, "a lock was lost");
        for server in &servers[..2] {
            assert_eq!(on(server), LOCKS, "a lock lapsed on a server that is well");
        }
        tokio::time::sleep(ms(50)).await;
    }
    // If renewals failed in sequence, less time would be left.
    let left = guards.iter().map(LockGuard::remaining).min().expect("there are some");
    assert!(left > TTL / 4, "{left:?}");
    drop(guards);
}
