//! Locks that count only if a replica has them, on every node.

use std::time::Duration;

use lock_core::LockManager;
use lock_tests::{PATIENCE, RedisCluster, wait_until};

use crate::support::{LONG, key_on};

/// Starts a Cluster in which every primary refuses writes without its replica.
async fn start() -> (RedisCluster, LockManager) {
    let cluster = RedisCluster::start_with(|_, node| node.config("min-replicas-to-write", "1"));
    for node in &cluster.nodes[..3] {
        wait_until("the replica has answered", PATIENCE, async || node.info("min_slaves_good_slaves") == "1")
            .await;
    }
    // The timeout allows the replica a second, because a busy machine is no fault.
    let url = format!("{}/?durability=replicas(1)&timeout=3s", cluster.url());
    let locks = LockManager::connect(&url).await.expect("the cluster takes locks");
    (cluster, locks)
}

fn has(cluster: &RedisCluster, number: usize, key: &str) -> bool {
    cluster.nodes[number + 3].keys().iter().any(|held| held == key)
}

#[tokio::test]
async fn whatever_is_granted_is_on_the_replica_by_then() {
    let (cluster, locks) = start().await;
    let keys = [0, 1, 2].map(|number| key_on(&cluster, number, "k"));
    for _ in 0..5 {
        let all = locks.all(&keys).ttl(LONG).fencing(true).acquire().await.expect("free");
        let token = all.fencing_token().await.expect("held").get();
        let mut largest = 0;
        for (number, key) in keys.iter().enumerate() {
            assert!(has(&cluster, number, key), "{key}");
            // The value is `<token> <owner>`. The largest token of all keys is the token of the lock.
            let last = cluster.read_replica(number, &format!("{{{key}}}:f"));
            let own: u64 = last.split(' ').next().and_then(|text| text.parse().ok()).expect("a token");
            assert!(own <= token, "{key}: {own} above {token}");
            largest = largest.max(own);
        }
        assert_eq!(largest, token, "the token that the replicas have");
        all.release().await.expect("an answer");
        for (number, key) in keys.iter().enumerate() {
            let guard = locks.lock(key).ttl(LONG).acquire().await.expect("free");
            assert!(has(&cluster, number, key), "{key}");
            guard.release().await.expect("an answer");
        }
    }
}

/// The replica hangs, and the primary has not noticed yet.
#[tokio::test]
async fn what_no_replica_has_is_not_granted() {
    let (cluster, locks) = start().await;
    let keys = [0, 1].map(|number| key_on(&cluster, number, "k"));
    cluster.nodes[4].stop();
    let error = locks.lock(&keys[1]).ttl(LONG).try_acquire().await.expect_err("no copy");
    assert!(error.is_unavailable() && error.to_string().contains("0 of 1 replica"), "{error}");
    // If one key is refused, none of the keys is locked.
    let error = locks.all(&keys).ttl(LONG).try_acquire().await.expect_err("no copy");
    assert!(error.is_unavailable(), "{error}");
    wait_until("all is given back", PATIENCE, async || {
        cluster.nodes[..2].iter().all(|node| node.keys().iter().all(|key| key.ends_with(":f")))
    })
    .await;
    cluster.nodes[4].cont();
    wait_until("it keeps up again", PATIENCE, async || {
        locks.all(&keys).ttl(Duration::from_secs(6)).try_acquire().await.is_ok_and(|guard| guard.is_some())
    })
    .await;
}
