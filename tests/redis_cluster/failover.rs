//! A primary dies, and its replica is promoted.

use std::time::Duration;

use lock_core::{LockManager, LossReason};
use lock_tests::{Fenced, PATIENCE, RedisCluster, RedisServer, wait_until};

use crate::support::{FAILOVER, LONG, connect, key_on, locked, soon_dead};

/// Cuts the replica of a primary off, so that later writes are lost with the primary.
fn detach(cluster: &RedisCluster, number: usize) {
    cluster.nodes[number + 3].command(&["CONFIG", "SET", "masterauth", "not-the-password"]);
    cluster.nodes[number].command(&["CLIENT", "KILL", "TYPE", "replica"]);
}

#[tokio::test]
async fn a_failover_is_followed_and_a_replicated_lock_survives_it() {
    let mut cluster = RedisCluster::start_with(soon_dead);
    // The release happens directly after the failover, when the nodes and the new connections are still busy.
    let holder = LockManager::connect(&format!("{}/?timeout=5s", cluster.url())).await;
    let (holder, other) = (holder.expect("the cluster takes locks"), connect(&cluster).await);
    let (job, next) = (key_on(&cluster, 1, "job"), key_on(&cluster, 1, "next"));
    let elsewhere = holder.lock(key_on(&cluster, 2, "k")).ttl(LONG).acquire().await.expect("free");
    let guard = holder.lock(&job).ttl(LONG).acquire().await.expect("free");
    wait_until("the replica has it", PATIENCE, async || cluster.nodes[4].keys().contains(&job)).await;
    cluster.nodes[1].kill9();
    let next = locked(&other, &next).await;
    assert!(other.lock(&job).try_acquire().await.expect("an answer").is_none(), "it is held there too");
    assert!(guard.is_held() && elsewhere.is_held());
    guard.release().await.expect("the new primary answers");
    assert!(other.lock(&job).try_acquire().await.expect("an answer").is_some());
    next.release().await.expect("an answer");
}

#[tokio::test]
async fn a_lock_that_was_not_replicated_is_lost_and_told_and_its_token_is_smaller() {
    let mut cluster = RedisCluster::start_with(soon_dead);
    let (old, new) = (connect(&cluster).await, connect(&cluster).await);
    let key = key_on(&cluster, 0, "job");
    detach(&cluster, 0);
    let ttl = Duration::from_secs(6);
    let guard = old.lock(&key).ttl(ttl).fencing(true).acquire().await.expect("free");
    let first = guard.fencing_token().await.expect("a token");
    cluster.nodes[0].kill9();
    let next = locked(&new, &key).await;
    let second = next.fencing_token().await.expect("a token");
    assert!(second > first, "{second} after {first}");
    let store = RedisServer::start();
    let resource = Fenced::connect(&store.url()).await;
    assert!(resource.write("r", second.get()).await);
    assert!(!resource.write("r", first.get()).await, "it comes too late");
    let reason = tokio::time::timeout(PATIENCE, guard.lost()).await.expect("told");
    assert!(matches!(reason, LossReason::Taken | LossReason::Expired), "{reason}");
    next.release().await.expect("an answer");
}

/// The primary answers again after another node has taken over its slots, and believes for a moment that it is still
/// the primary.
#[tokio::test]
async fn a_primary_that_was_stopped_is_left() {
    let cluster = RedisCluster::start_with(soon_dead);
    let (busy, idle) = (connect(&cluster).await, connect(&cluster).await);
    let key = key_on(&cluster, 0, "k");
    busy.lock(&key).run(async {}).await.expect("free");
    idle.lock(&key).run(async {}).await.expect("free");
    cluster.nodes[0].stop();
    cluster.wait_promoted(0);
    locked(&busy, &key).await.release().await.expect("an answer");
    // Like the other manager, the idle manager has lost its connection, or does so within two heartbeats, without any
    // notification. It has sent no request, so it still believes that the old node is the primary.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    cluster.nodes[0].cont();
    for locks in [idle, connect(&cluster).await, busy] {
        let guard = locked(&locks, &key).await;
        assert!(cluster.nodes[3].keys().contains(&key));
        guard.release().await.expect("an answer");
    }
}

#[tokio::test]
async fn without_a_node_for_a_slot_there_is_no_lock_and_then_there_is() {
    let mut cluster = RedisCluster::start_with(soon_dead);
    let locks = connect(&cluster).await;
    let key = key_on(&cluster, 2, "k");
    cluster.nodes[5].kill9();
    cluster.nodes[2].kill9();
    let error = locks.lock(&key).ttl(LONG).try_acquire().await.expect_err("nobody has the slot");
    assert!(error.is_unavailable() && error.is_temporary(), "{error}");
    // The other primaries notice the missing node after a while, and then refuse their own slots as well.
    let other = key_on(&cluster, 0, "k");
    wait_until("the cluster is down", FAILOVER, async || {
        match locks.lock(&other).ttl(LONG).try_acquire().await {
            Ok(_) => false,
            Err(error) => {
                assert!(error.is_unavailable() && error.is_temporary(), "{error}");
                error.to_string().contains("the cluster is down")
            }
        }
    })
    .await;
    cluster.nodes[2].restart();
    locked(&locks, &key).await.release().await.expect("an answer");
}

/// The locks of this node are lost. The locks of the other nodes are still renewed.
#[tokio::test]
async fn a_node_that_hangs_costs_the_locks_of_the_others_nothing() {
    let cluster = RedisCluster::start_with(|_, node| node.config("cluster-require-full-coverage", "no"));
    let locks = connect(&cluster).await;
    let ttl = Duration::from_secs(2);
    let mut guards = Vec::new();
    for number in 0..3 {
        guards.push(locks.lock(key_on(&cluster, number, "k")).ttl(ttl).acquire().await.expect("free"));
    }
    cluster.nodes[0].stop();
    guards[0].lost().await;
    let left = |number: usize, guard: &lock_core::LockGuard| cluster.pttl(number, guard.key());
    for (number, guard) in guards.iter().enumerate().skip(1) {
        for _ in 0..3 {
            let mut last = left(number, guard);
            wait_until("it is renewed", PATIENCE, async || {
                let now = left(number, guard);
                std::mem::replace(&mut last, now) < now
            })
            .await;
        }
        assert!(guard.is_held());
    }
    cluster.nodes[0].cont();
}
