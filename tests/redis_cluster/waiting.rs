//! Waiters are notified only by the node that has the slot.

use lock_core::strategy;
use lock_tests::{PATIENCE, RedisCluster, wait_until};

use crate::support::{LONG, connect, key_on};

#[tokio::test]
async fn the_next_is_told_over_the_channel_of_the_slot() {
    let cluster = RedisCluster::start();
    let (ours, theirs) = (connect(&cluster).await, connect(&cluster).await);
    let key = key_on(&cluster, 1, "k");
    let node = &cluster.nodes[1];
    for _ in 0..3 {
        let guard = ours.fair(&key).ttl(LONG).acquire().await.expect("free");
        let waiter = tokio::spawn({
            let (theirs, key) = (theirs.clone(), key.clone());
            async move { theirs.fair(&key).ttl(LONG).strategy(strategy::wait()).acquire().await }
        });
        let queue = format!("{{{key}}}:q");
        wait_until("somebody waits", PATIENCE, async || node.keys().contains(&queue)).await;
        guard.release().await.expect("an answer");
        waiter.await.expect("no panic").expect("granted").release().await.expect("an answer");
    }
    // Each process subscribes once, however often it waits. Each hand-off through the store is one message, which the
    // other nodes do not receive.
    let calls = |name: &str| {
        let text: String = node.get(&["INFO", "commandstats"]);
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":calls="));
        line.and_then(|line| line.split(',').next()?.parse::<u32>().ok()).unwrap_or(0)
    };
    assert_eq!(calls("cmdstat_ssubscribe"), 2);
    assert!(calls("cmdstat_spublish") >= 3);
    assert_eq!(calls("cmdstat_publish"), 0);
    let channels: Vec<String> = node.get(&["PUBSUB", "SHARDCHANNELS"]);
    assert_eq!(channels.len(), 2, "{channels:?}");
    assert!(channels.iter().all(|channel| cluster.slot(channel) == cluster.slot(&key)), "{channels:?}");
}

/// Tests hand-offs under load between processes. Each manager is one process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_loses_nothing() {
    let cluster = RedisCluster::start();
    let counter = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (locks, counter) = (connect(&cluster).await, counter.clone());
        tasks.spawn(async move {
            for _ in 0..25 {
                let key = "{stock}hot";
                let request = if number % 2 == 0 { locks.fair(key) } else { locks.lock(key) };
                let add = async {
                    use std::sync::atomic::Ordering::Relaxed;
                    let before = counter.load(Relaxed);
                    tokio::task::yield_now().await;
                    counter.store(before + 1, Relaxed);
                };
                request.strategy(strategy::wait()).run(add).await.expect("served");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
    assert_eq!(counter.load(std::sync::atomic::Ordering::Relaxed), 200);
}
