//! How the library finds the nodes after they have moved.

use std::time::Duration;

use lock_core::LockManager;
use lock_tests::{Bound, PATIENCE, RedisCluster, RedisServer, wait_until};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::{FAILOVER, LONG, RENEWS, connect, key_on, soon_dead};

async fn takes(locks: &LockManager, key: &str) -> bool {
    match locks.lock(key).ttl(LONG).try_acquire().await {
        Ok(Some(guard)) => guard.release().await.is_ok(),
        _ => false,
    }
}

/// By now another service has the address of the node.
#[tokio::test]
async fn a_node_whose_place_is_taken_by_another_service_is_left() {
    let mut cluster = RedisCluster::start_with(soon_dead);
    let locks = connect(&cluster).await;
    let key = key_on(&cluster, 0, "k");
    assert!(takes(&locks, &key).await);
    cluster.nodes[0].restart_as(RedisServer::builder());
    wait_until("it is found to be another", PATIENCE, async || {
        let refused = locks.lock(&key).try_acquire().await;
        refused.is_err_and(|error| error.to_string().contains("no node of a Redis Cluster"))
    })
    .await;
    cluster.wait_promoted(0);
    wait_until("its replica is found", PATIENCE, async || takes(&locks, &key).await).await;
}

/// A runtime that is no longer driven may have been about to look for the nodes on behalf of all.
#[test]
fn a_runtime_that_is_not_driven_keeps_nobody_from_looking() {
    let main = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    // The other nodes continue to serve renewals while one is missing.
    let mut cluster = RedisCluster::start_with(|number, node| {
        soon_dead(number, node).config("cluster-require-full-coverage", "no")
    });
    let locks = main.block_on(connect(&cluster));
    let (key, other) = (key_on(&cluster, 0, "k"), key_on(&cluster, 1, "k"));
    let ttl = Duration::from_secs(3);
    let guard = main.block_on(locks.lock(&other).ttl(ttl).acquire()).expect("free");
    assert!(main.block_on(takes(&locks, &key)));
    cluster.nodes[0].kill9();
    let mut frozen = Vec::new();
    for number in 0..30_u64 {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (locks, key) = (locks.clone(), if number % 2 == 0 { key.clone() } else { other.clone() });
        runtime.block_on(async {
            tokio::spawn(async move { locks.lock(key).try_acquire().await.map(drop) });
            sleep(Duration::from_micros(500 + 200 * number)).await;
        });
        frozen.push(runtime);
    }
    main.block_on(async {
        wait_until("the replica is found", FAILOVER, async || takes(&locks, &key).await).await;
        assert!(guard.is_held(), "its node was there all the time");
        guard.release().await.expect("an answer");
    });
}

/// All waiters together query the other nodes ten times a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_miss_a_node_ask_together() {
    let mut cluster = RedisCluster::start_with(soon_dead);
    let locks = connect(&cluster).await;
    let mut tasks = JoinSet::new();
    for number in 0..100 {
        let (locks, key) = (locks.clone(), key_on(&cluster, 0, &format!("k{number}x")));
        tasks.spawn(async move {
            loop {
                drop(locks.lock(&key).try_acquire().await);
                sleep(Duration::from_millis(number % 20)).await;
            }
        });
    }
    // The replica is stopped too, so no node takes over its slots during the test. Soon all requests are refused.
    cluster.nodes[3].kill9();
    cluster.nodes[0].kill9();
    let connections =
        || cluster.nodes[1].info("total_connections_received").parse::<u32>().expect("a number");
    let (before, start) = (connections(), Bound::new(PATIENCE));
    sleep(Duration::from_secs(3)).await;
    let (made, seconds) = (connections() - before, start.elapsed().as_secs() + 1);
    assert!(u64::from(made) < 20 * seconds, "{made} in {seconds} s");
}

/// The epochs of the new Cluster begin again, and other nodes are its primaries.
#[tokio::test]
async fn a_cluster_that_was_made_anew_on_the_same_addresses_is_found() {
    let cluster = RedisCluster::start();
    for _ in 0..3 {
        cluster.nodes[0].command(&["CLUSTER", "BUMPEPOCH"]);
        cluster.nodes[1].command(&["CLUSTER", "BUMPEPOCH"]);
    }
    cluster.wait_epoch(7);
    let locks = connect(&cluster).await;
    let key = key_on(&cluster, 0, "k");
    assert!(takes(&locks, &key).await);
    cluster.make_anew();
    assert!(takes(&connect(&cluster).await, &key).await);
    wait_until("the new primaries are found", PATIENCE, async || takes(&locks, &key).await).await;
}

/// A node that was removed from the Cluster has no slots at all, and answers renewals with an error.
#[tokio::test]
async fn a_held_lock_is_renewed_after_its_node_was_taken_out() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster).await;
    let key = key_on(&cluster, 0, "k");
    let guard = locks.lock(&key).ttl(LONG).renew_every(RENEWS).acquire().await.expect("free");
    renewed(&cluster, 0, &key).await;
    cluster.nodes[3].command(&["CLUSTER", "FAILOVER"]);
    cluster.wait_promoted(0);
    wait_until("it is a replica", PATIENCE, async || cluster.nodes[0].info("role") == "slave").await;
    let id: String = cluster.nodes[0].get(&["CLUSTER", "MYID"]);
    for node in &cluster.nodes[1..] {
        node.command(&["CLUSTER", "FORGET", &id]);
    }
    cluster.nodes[0].command(&["CLUSTER", "RESET"]);
    for _ in 0..3 {
        renewed(&cluster, 3, &key).await;
    }
    assert!(guard.is_held());
}

async fn renewed(cluster: &RedisCluster, number: usize, key: &str) {
    let mut last = cluster.pttl(number, key);
    wait_until("it is renewed", PATIENCE, async || {
        let left = cluster.pttl(number, key);
        assert!(left > 0, "it is there");
        std::mem::replace(&mut last, left) < left
    })
    .await;
}
