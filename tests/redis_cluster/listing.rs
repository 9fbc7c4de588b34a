//! The list of locks, over all nodes.

use lock_core::LossReason;
use lock_tests::{PATIENCE, RedisCluster, wait_until};

use crate::support::{LONG, connect, key_on, soon_dead};

/// A listing gets no redirect that would lead it to the new nodes.
#[tokio::test]
async fn locks_are_listed_after_a_failover() {
    let mut cluster = RedisCluster::start_with(soon_dead);
    let (holder, looker) = (connect(&cluster).await, connect(&cluster).await);
    let mut guards = Vec::new();
    for number in 0..3 {
        let key = key_on(&cluster, number, "k");
        guards.push(holder.lock(&key).ttl(LONG).acquire().await.expect("free"));
        let replica = &cluster.nodes[number + 3];
        wait_until("the replica has it", PATIENCE, async || replica.keys().contains(&key)).await;
    }
    assert_eq!(looker.locks().await.expect("an answer").locks.len(), 3);
    cluster.nodes[1].kill9();
    cluster.wait_promoted(1);
    wait_until("all are found again", PATIENCE, async || {
        looker.locks().await.is_ok_and(|listed| listed.locks.len() == 3)
    })
    .await;
}

/// Nodes that cannot read any key find no locks. This must not look like an empty list.
#[tokio::test]
async fn a_cluster_that_is_down_is_no_empty_list() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster).await;
    let guard = locks.lock(key_on(&cluster, 0, "k")).ttl(LONG).acquire().await.expect("free");
    let slot = cluster.slot(&key_on(&cluster, 1, "other")).to_string();
    for node in &cluster.nodes {
        let _ = node.try_command(&["CLUSTER", "DELSLOTS", &slot]);
    }
    wait_until("the cluster is down", PATIENCE, async || {
        let states = cluster.nodes.iter().map(|node| node.get::<String>(&["CLUSTER", "INFO"]));
        states.into_iter().all(|state| state.contains("cluster_state:fail"))
    })
    .await;
    let error = locks.locks().await.expect_err("nobody can tell");
    assert!(error.is_temporary() && error.to_string().contains("the cluster is down"), "{error}");
    cluster.nodes[1].command(&["CLUSTER", "ADDSLOTS", &slot]);
    wait_until("it is listed again", PATIENCE, async || {
        locks.locks().await.is_ok_and(|listed| listed.locks.len() == 1)
    })
    .await;
    assert!(guard.is_held());
}

/// The lock is among other keys, each in another slot, and the nodes have forgotten the script.
#[tokio::test]
async fn a_lock_is_found_among_other_keys() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster).await;
    for number in 0..150 {
        let key = format!("other:{number}");
        cluster.nodes[cluster.number_of(&key)].command(&["SET", &key, "data"]);
    }
    let guard = locks.lock("mine").ttl(LONG).acquire().await.expect("free");
    for node in &cluster.nodes[..3] {
        node.command(&["SCRIPT", "FLUSH"]);
    }
    let listed = locks.locks().await.expect("an answer");
    let found: Vec<&str> = listed.locks.iter().map(|lock| lock.key.as_str()).collect();
    assert_eq!(found, ["mine"]);
    guard.release().await.expect("an answer");
}

/// The victim may be subscribed on any node.
#[tokio::test]
async fn a_victim_is_told_at_once_on_every_node() {
    let cluster = RedisCluster::start();
    let (victim, operator) = (connect(&cluster).await, connect(&cluster).await);
    for number in 0..3 {
        let key = key_on(&cluster, number, "k");
        let guard = victim.lock(&key).ttl(LONG).acquire().await.expect("free");
        let node = &cluster.nodes[cluster.number_of(&key)];
        wait_until("it listens", PATIENCE, async || {
            !node.get::<Vec<String>>(&["PUBSUB", "CHANNELS", "lock:wake:held:*"]).is_empty()
        })
        .await;
        let id = operator.locks().await.expect("a list").locks[0].holders[0].id.clone();
        assert!(operator.force_release(&key, &id, "stuck").await.expect("an answer"));
        let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
        // The next renewal would find the lock lost.
        assert_eq!(lost.expect("told"), LossReason::Forced);
    }
}
