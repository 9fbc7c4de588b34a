//! The warnings at start-up about settings that can lose a lock.

use lock_core::LockManager;
use lock_tests::{PATIENCE, RedisCluster, Warnings, wait_until};

use crate::support::{LONG, key_on};

/// Returns the warnings about the nodes, from managers that acquire a lock on each primary.
async fn said_of(cluster: &RedisCluster) -> Vec<String> {
    Warnings::listen();
    for node in &cluster.nodes[..3] {
        wait_until("the replica has answered", PATIENCE, async || node.info("min_slaves_good_slaves") == "1")
            .await;
    }
    let locks = LockManager::connect(&cluster.url()).await.expect("the cluster takes locks");
    for number in [0, 1, 2] {
        let key = key_on(cluster, number, "k");
        let guard = locks.lock(&key).ttl(LONG).acquire().await.expect("the key is free");
        guard.release().await.expect("an answer");
    }
    cluster.nodes.iter().flat_map(|node| Warnings::with(&format!("127.0.0.1:{}", node.port()))).collect()
}

#[tokio::test]
async fn a_cluster_that_refuses_renewals_while_a_slot_has_no_node_is_named() {
    let with = |coverage: &'static str| {
        RedisCluster::start_with(move |_, node| {
            let node = node.config("min-replicas-to-write", "1");
            node.config("cluster-require-full-coverage", coverage)
        })
    };
    let said = said_of(&with("yes")).await;
    assert!((1..=3).contains(&said.len()), "once for each node: {said:?}");
    assert!(said.iter().all(|line| line.contains("cluster-require-full-coverage is yes")), "{said:?}");
    assert_eq!(said_of(&with("no")).await, Vec::<String>::new());
}
