//! The stored data, the notified waiters, and the nodes that remain.

use lock_core::strategy;
use lock_tests::{PATIENCE, ZooKeeperServers, is_held_since_its_grant, wait_until};
use tokio::task::JoinSet;

use crate::support::{LONG, connect, ms, patient_servers, patient_url, try_once, url};

/// A release notifies one of many waiters, because each waiter watches the one before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_one_waiter() {
    const WAITERS: usize = 200;
    let servers = patient_servers();
    let locks = connect(&patient_url(&servers)).await;
    let guard = try_once(&locks, "k").await.expect("free");
    let mut waiting = JoinSet::new();
    for _ in 0..WAITERS {
        // With a limit of waiters, each waiter has its own place.
        let request = locks.fair("k").ttl(LONG).wait(PATIENCE * 12).max_waiters(2 * WAITERS);
        waiting.spawn(request.acquire());
    }
    wait_until("all wait", PATIENCE * 4, async || servers.nodes("locks/k") == WAITERS + 1).await;
    // Each waiter renews its watch every two seconds, so on a busy machine many waiters have none at a given moment.
    wait_until("most of them watch", PATIENCE * 4, async || servers.watches() >= WAITERS / 2).await;
    let watches = servers.watches_by_path();
    let most = watches.iter().map(|(_, watchers)| *watchers).max();
    assert_eq!(most, Some(1), "watched by several: {watches:?}");
    drop(guard);
    for _ in 0..WAITERS {
        let served = waiting.join_next().await.expect("a waiter").expect("no panic").expect("served");
        served.release().await.expect("an answer");
    }
    wait_until("nothing is left", PATIENCE, async || servers.nodes("locks/k") == 0).await;
    wait_until("no watch is left", PATIENCE, async || servers.watches() == 0).await;
}

/// A request that is given up leaves neither a node nor a watch.
#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_leaves_nothing() {
    let servers = ZooKeeperServers::start();
    let (locks, other) = (connect(&url(&servers)).await, connect(&url(&servers)).await);
    let guard = try_once(&locks, "k").await.expect("free");
    for after in [0, 1, 2, 5, 20, 100] {
        let request = other.lock("k").ttl(LONG).wait(PATIENCE).acquire();
        assert!(tokio::time::timeout(ms(after), request).await.is_err(), "granted beside a holder");
        let tried = other.lock("k").ttl(LONG).strategy(strategy::fail_fast()).acquire().await;
        assert!(tried.is_err());
    }
    // The holder watches its own node after its first renewal.
    wait_until("only the holder is left", PATIENCE, async || {
        servers.nodes("locks/k") == 1 && servers.watches() <= 1
    })
    .await;
    guard.release().await.expect("an answer");
}

/// The directory of a key is deleted while the key is not used, even while claims for it begin and end.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_vanishes_is_made_again() {
    // The server checks for empty containers every 20 ms instead of every minute.
    let servers = ZooKeeperServers::builder().property("znode.container.checkIntervalMs=20").start();
    let locks = connect(&url(&servers)).await;
    let client = zookeeper_client::Client::connect(&servers.hosts()).await.expect("a client");
    let exists = async || client.check_stat("/locks/k").await.expect("an answer").is_some();
    for round in 0..60 {
        let guard = try_once(&locks, "k").await.expect("free");
        guard.release().await.expect("an answer");
        tokio::time::sleep(ms(round)).await;
    }
    wait_until("the directory is gone", PATIENCE, async || !exists().await).await;
    let guard = try_once(&locks, "k").await.expect("free");
    assert!(exists().await);
    guard.release().await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_had_to_wait_holds_since_the_grant() {
    let servers = patient_servers();
    let (locks, other) = (connect(&patient_url(&servers)).await, connect(&patient_url(&servers)).await);
    is_held_since_its_grant(&locks, &other, LONG).await;
}
