//! The number of requests that a lock costs.

use std::time::Duration;

use lock_tests::{Bound, PATIENCE, ZooKeeperServers, take_turns, wait_until};

use crate::support::{LONG, SESSION, connect, ms, patient_servers, patient_url, try_once, url};

/// Returns the highest number of heartbeats of one session within `time`: those of the library, and those of the
/// client.
pub(crate) fn alive(time: Duration) -> u64 {
    let rounds = time.as_millis() / (SESSION / 8).as_millis() + 2;
    2 * u64::try_from(rounds).expect("a short time")
}

/// A free lock costs three requests: the creation of the node, a simultaneous read of the other nodes, and the release.
#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_costs_three_requests() {
    const CYCLES: u64 = 200;
    let servers = ZooKeeperServers::start();
    let locks = connect(&url(&servers)).await;
    try_once(&locks, "k").await.expect("free").release().await.expect("an answer");
    let (before, since) = (servers.requests(), Bound::new(LONG));
    for _ in 0..CYCLES {
        let guard = try_once(&locks, "k").await.expect("free");
        // The number of the node is the fencing token, so the token costs no request.
        guard.fencing_token().await.expect("a token");
        guard.release().await.expect("an answer");
    }
    let sent = servers.requests() - before;
    let most = 3 * CYCLES + alive(since.elapsed());
    assert!((3 * CYCLES..=most).contains(&sent), "{sent} requests, at most {most}");
}

/// Renewals cost no requests, whatever the number of locks. The first renewal of a lock sets a watch, which is one
/// request.
#[tokio::test(flavor = "multi_thread")]
async fn renewals_cost_nothing() {
    const LOCKS: usize = 200;
    let servers = patient_servers();
    let locks = connect(&patient_url(&servers)).await;
    let mut guards = Vec::new();
    for number in 0..LOCKS {
        guards.push(try_once(&locks, &format!("k{number}")).await.expect("free"));
    }
    wait_until("all are watched", PATIENCE, async || servers.watches() == LOCKS).await;
    let (before, since) = (servers.requests(), Bound::new(LONG));
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(guards.iter().all(|guard| guard.is_held()), "kept over several leases");
    let (sent, most) = (servers.requests() - before, alive(since.elapsed()));
    assert!(sent <= most, "{sent} requests for {LOCKS} locks, at most {most}");
}

/// A client that repeatedly tries to get a held key only reads.
#[tokio::test(flavor = "multi_thread")]
async fn tries_for_a_held_key_write_nothing() {
    let servers = ZooKeeperServers::start();
    let (locks, other) = (connect(&url(&servers)).await, connect(&url(&servers)).await);
    let guard = try_once(&locks, "k").await.expect("free");
    assert!(try_once(&other, "k").await.is_err(), "held");
    let client = zookeeper_client::Client::connect(&servers.hosts()).await.expect("a client");
    let changes =
        async || client.check_stat("/locks/k").await.expect("an answer").expect("it is there").pzxid;
    let before = changes().await;
    for _ in 0..20 {
        assert!(try_once(&other, "k").await.is_err(), "held");
        tokio::time::sleep(ms(1)).await;
    }
    assert_eq!(changes().await, before, "a try left its mark");
    guard.release().await.expect("an answer");
}

/// The waiters of one process hand the lock to each other while no other process waits. A task that releases checks
/// every 10 ms whether another process waits.
#[tokio::test]
async fn hand_offs_inside_a_process_write_nothing() {
    const TASKS: u32 = 4;
    const HOLDS: u32 = 10;
    let servers = ZooKeeperServers::start();
    let locks = connect(&url(&servers)).await;
    try_once(&locks, "k").await.expect("it is free").release().await.expect("an answer");
    let client = zookeeper_client::Client::connect(&servers.hosts()).await.expect("a client");
    let changes =
        async || client.check_stat("/locks/k").await.expect("an answer").expect("it is there").cversion;
    let before = changes().await;
    take_turns(&locks, LONG, TASKS, HOLDS).join_all().await;
    // Each task may create and delete a node before it knows of the others, and the last tasks may find no task for a
    // hand-off. Through the store, each hold would change two nodes.
    let (changed, holds) = ((changes().await - before).unsigned_abs(), HOLDS * TASKS);
    assert!(changed <= holds / 2, "{changed} changes for {holds} holds");
}
