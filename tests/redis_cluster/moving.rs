//! Slots that move from one node to another.

use std::time::Duration;

use lock_core::LockManager;
use lock_tests::{PATIENCE, RedisCluster, wait_until};
use tokio::task::JoinSet;

use crate::support::{LONG, RENEWS, connect, key_on};

/// Returns the nodes that contain the key.
fn places(cluster: &RedisCluster, key: &str) -> Vec<usize> {
    (0..3).filter(|number| cluster.nodes[*number].keys().iter().any(|held| held == key)).collect()
}

#[tokio::test]
async fn a_lock_is_found_where_its_slot_has_gone() {
    let cluster = RedisCluster::start();
    let (ours, theirs) = (connect(&cluster).await, connect(&cluster).await);
    let key = key_on(&cluster, 0, "k");
    let guard = ours.lock(&key).ttl(LONG).fencing(true).acquire().await.expect("free");
    let first = guard.fencing_token().await.expect("a token");
    let slot = cluster.slot(&key);
    cluster.begin_move(slot, 0, 1);
    cluster.end_move(slot, 0, 1);
    assert_eq!(places(&cluster, &key), [1]);
    assert!(theirs.lock(&key).try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("an answer");
    let guard = theirs.lock(&key).fencing(true).acquire().await.expect("free");
    assert!(guard.fencing_token().await.expect("a token") > first);
    assert_eq!(places(&cluster, &key), [1]);
}

#[tokio::test]
async fn a_held_lock_is_renewed_while_its_slot_moves() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster).await;
    let key = key_on(&cluster, 0, "k");
    let guard = locks.lock(&key).ttl(LONG).renew_every(RENEWS).fencing(true).acquire().await.expect("free");
    let slot = cluster.slot(&key);
    cluster.begin_move(slot, 0, 2);
    renewed(&cluster, 0, &key).await;
    // The lock moves first. The other keys of the lock stay on the old node.
    cluster.move_key(&key, 0, 2);
    renewed(&cluster, 2, &key).await;
    assert!(guard.is_held());
    // A release needs all keys of the lock on one node.
    let release = tokio::spawn(guard.release());
    cluster.end_move(slot, 0, 2);
    release.await.expect("no panic").expect("an answer");
    wait_until("it is free", PATIENCE, async || places(&cluster, &key).is_empty()).await;
}

/// A Cluster gets one more node. The slot that moves is the first slot of a node that no client knows yet.
#[tokio::test]
async fn a_slot_may_move_to_a_node_that_has_none() {
    let mut cluster = RedisCluster::start();
    let locks = connect(&cluster).await;
    let key = key_on(&cluster, 0, "k");
    let guard = locks.lock(&key).ttl(LONG).renew_every(RENEWS).acquire().await.expect("free");
    let new = cluster.add_node();
    let slot = cluster.slot(&key);
    cluster.begin_move(slot, 0, new);
    cluster.move_key(&key, 0, new);
    renewed(&cluster, new, &key).await;
    guard.check().expect("it is held");
    // A free key of that slot must be created on the new node.
    let other = format!("{{{key}}}:other");
    let held = locks.lock(&other).ttl(LONG).try_acquire().await.expect("an answer").expect("free");
    assert!(cluster.nodes[new].keys().contains(&other));
    cluster.end_move(slot, 0, new);
    guard.release().await.expect("an answer");
    held.release().await.expect("an answer");
}

/// Waits for two renewals, which are visible in the time to live of the key.
async fn renewed(cluster: &RedisCluster, number: usize, key: &str) {
    for _ in 0..2 {
        let mut last = cluster.pttl(number, key);
        wait_until("it is renewed", PATIENCE, async || {
            let left = cluster.pttl(number, key);
            assert!(left > 0, "it is there");
            std::mem::replace(&mut last, left) < left
        })
        .await;
    }
}

#[tokio::test]
async fn a_free_key_can_be_locked_while_its_slot_moves() {
    let cluster = RedisCluster::start();
    let (ours, theirs) = (connect(&cluster).await, connect(&cluster).await);
    let key = key_on(&cluster, 0, "k");
    let slot = cluster.slot(&key);
    cluster.begin_move(slot, 0, 1);
    let grab = async |locks: &LockManager| locks.lock(&key).ttl(LONG).try_acquire().await;
    let guard = grab(&ours).await.expect("an answer").expect("free");
    assert_eq!(places(&cluster, &key), [1]);
    // If another manager requests the lock meanwhile, it is refused or must retry. It never gets the lock.
    assert!(!matches!(grab(&theirs).await, Ok(Some(_))));
    cluster.end_move(slot, 0, 1);
    assert!(grab(&theirs).await.expect("an answer").is_none());
    guard.release().await.expect("an answer");
    assert!(grab(&theirs).await.expect("an answer").is_some());
}

/// The old node sends no notifications any more.
#[tokio::test]
async fn who_waits_gets_the_lock_where_the_slot_has_gone() {
    let cluster = RedisCluster::start();
    let (ours, theirs) = (connect(&cluster).await, connect(&cluster).await);
    let key = key_on(&cluster, 0, "k");
    let guard = ours.lock(&key).ttl(LONG).acquire().await.expect("free");
    let waiter = tokio::spawn({
        let key = key.clone();
        async move { theirs.fair(&key).ttl(LONG).strategy(lock_core::strategy::wait()).acquire().await }
    });
    let queue = format!("{{{key}}}:q");
    wait_until("somebody waits", PATIENCE, async || cluster.nodes[0].keys().contains(&queue)).await;
    let slot = cluster.slot(&key);
    cluster.begin_move(slot, 0, 1);
    cluster.end_move(slot, 0, 1);
    guard.release().await.expect("an answer");
    waiter.await.expect("no panic").expect("granted").release().await.expect("an answer");
}

/// A node that gives a slot away sends a notification to the waiting clients within an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_reads_the_answer_of_another_while_a_slot_moves() {
    let cluster = RedisCluster::start();
    let (holder, ours) = (connect(&cluster).await, connect(&cluster).await);
    let mut tasks = JoinSet::new();
    let mut guards = Vec::new();
    let waited: Vec<String> = (0..6).map(|number| key_on(&cluster, 0, &format!("waited{number}x"))).collect();
    for key in &waited {
        guards.push(holder.lock(key).ttl(LONG).acquire().await.expect("free"));
        let request = ours.fair(key).ttl(LONG).strategy(lock_core::strategy::wait());
        tasks.spawn(async move { request.acquire().await.map(drop).expect("it waits") });
        let queue = format!("{{{key}}}:q");
        wait_until("somebody waits", PATIENCE, async || cluster.nodes[0].keys().contains(&queue)).await;
    }
    // Other clients hold half of the keys, so the two halves get different answers.
    let busy: Vec<String> = (0..8).map(|number| key_on(&cluster, 0, &format!("busy{number}x"))).collect();
    for key in &busy[..4] {
        guards.push(holder.lock(key).ttl(LONG).acquire().await.expect("free"));
    }
    for number in 0..48 {
        let (locks, key, held) = (ours.clone(), busy[number % 8].clone(), number % 8 < 4);
        tasks.spawn(async move {
            loop {
                match locks.lock(&key).ttl(LONG).try_acquire().await {
                    Ok(granted) => assert!(granted.is_none() || !held, "{key} is held by another"),
                    Err(error) => assert!(!error.to_string().contains("unexpected answer"), "{error}"),
                }
            }
        });
    }
    for key in &waited {
        let slot = cluster.slot(key);
        cluster.begin_move(slot, 0, 1);
        cluster.end_move(slot, 0, 1);
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Some(ended) = tasks.try_join_next() {
            ended.expect("no answer of another");
        }
    }
}
