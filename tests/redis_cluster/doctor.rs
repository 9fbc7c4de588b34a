//! The findings of `doctor` on a Cluster, about each primary and about the slots.

use lock_core::Severity::{Danger, Note, Warning};
use lock_tests::{PATIENCE, RedisCluster, RedisServer, wait_until};

use crate::findings::{found_as, gone, rules};
use crate::support::connect;

fn set_all(cluster: &RedisCluster, name: &str, value: &str) {
    cluster.nodes.iter().for_each(|node| drop(node.command(&["CONFIG", "SET", name, value])));
}

#[tokio::test]
async fn each_primary_is_looked_at_and_equal_findings_are_one() {
    let mut cluster = RedisCluster::start();
    let locks = connect(&cluster).await;
    let healthy =
        [("redis.failover", Warning), ("redis.full_coverage", Note), ("redis.persistence", Warning)];
    assert_eq!(rules(&locks).await, healthy);
    let finding = found_as(&locks, "redis.full_coverage", Note).await;
    let port = |number: usize| cluster.nodes[number].port().to_string();
    assert!((0..3).all(|number| finding.about.contains(&port(number))), "{finding}");
    assert!(!finding.about.contains(&port(3)), "a replica grants no locks: {finding}");
    set_all(&cluster, "cluster-require-full-coverage", "no");
    gone(&locks, "redis.full_coverage").await;

    // Every node must forget the owner of the slot.
    for node in &cluster.nodes {
        node.command(&["CLUSTER", "DELSLOTS", "0"]);
    }
    let finding = found_as(&locks, "redis.slots", Danger).await;
    assert!(finding.found.contains("1 of 16384 slots have no node"), "{finding}");
    cluster.nodes[0].command(&["CLUSTER", "ADDSLOTS", "0"]);
    gone(&locks, "redis.slots").await;

    let first = format!("127.0.0.1:{}", cluster.nodes[0].port());
    cluster.nodes[3].kill9();
    let finding = found_as(&locks, "redis.no_replica", Warning).await;
    assert_eq!(finding.about, first, "{finding}");
    cluster.nodes[0].stop();
    let finding = found_as(&locks, "redis.node", Danger).await;
    assert_eq!(finding.about, first, "{finding}");
    cluster.nodes[0].cont();
    gone(&locks, "redis.node").await;
    cluster.nodes[3].restart();
    gone(&locks, "redis.no_replica").await;

    cluster.nodes.iter_mut().for_each(RedisServer::kill9);
    wait_until("nobody answers", PATIENCE, async || {
        locks.doctor().await.is_err_and(|error| error.is_unavailable())
    })
    .await;
}
