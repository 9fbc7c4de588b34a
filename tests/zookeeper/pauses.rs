//! A process that is stopped for longer than its session timeout, and a server that is cut off from its leader.

use std::pin::pin;

use lock_core::LossReason;
use lock_tests::{Bound, Directory, PATIENCE, Worker, ZooKeeperServers, wait_until};

use crate::WORKER;
use crate::support::{LONG, connect, leader, lost_within, ms, try_once, url};

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_stood_still_does_nothing_more_when_it_goes_on() {
    let servers = ZooKeeperServers::start();
    let url = format!("{}&timeout=2s", url(&servers));
    let locks = connect(&url).await;
    for _ in 0..3 {
        let directory = Directory::new();
        // The body writes to this file in its next round, if the file exists.
        let effect = directory.path().join("effect");
        let file = effect.to_str().expect("a path of UTF-8");
        let arguments = ["hold", "--url", &url, "--key", "k", "--ttl", "6000", "--effect", file];
        let mut worker = Worker::start(WORKER, &arguments);
        worker.expect("HELD").await;
        worker.process().stop();
        let guard = locks.lock("k").ttl(LONG).wait(PATIENCE).acquire().await.expect("the session ends");
        std::fs::write(&effect, "").expect("a file");
        worker.process().cont();
        let reason = worker.expect("LOST").await;
        assert!(reason.contains("Expired") || reason.contains("SessionEnded"), "{reason}");
        assert_eq!(std::fs::read_to_string(&effect).expect("a file"), "", "it worked on without its lock");
        worker.finish().await;
        guard.check().expect("the late one took nothing away");
        guard.release().await.expect("an answer");
    }
}

/// A killed process frees its key when its session expires.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_killed_frees_its_key() {
    let servers = ZooKeeperServers::start();
    let url = url(&servers);
    let locks = connect(&url).await;
    let mut worker = Worker::start(
        WORKER,
        &["hold", "--url", &url, "--key", "k", "--ttl", "6000", "--effect", "/dev/null"],
    );
    worker.expect("HELD").await;
    worker.process().kill9();
    let guard = locks.lock("k").ttl(LONG).wait(PATIENCE).acquire().await.expect("the session ends");
    guard.release().await.expect("an answer");
}

/// A server that is cut off from the leader still answers reads, while the leader counts the session timeout. So the
/// answer to a read must not prolong a lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_leader_prolongs_no_lock() {
    // The followers wait for their leader for longer than the session timeout.
    let servers = ZooKeeperServers::builder().members(3).setting("syncLimit=80").start();
    let leader = leader(&servers).await;
    let follower = servers.address((leader + 1) % 3);
    let locks = connect(&format!("zookeeper://{follower}/locks?session_timeout=4s&timeout=2s")).await;
    let reader = zookeeper_client::Client::connect(&follower.to_string()).await.expect("a client");
    let guard = try_once(&locks, "k").await.expect("free");
    let since = Bound::new(PATIENCE);
    servers.stop(leader);
    let reads = async || reader.check_stat("/locks/k").await.is_ok_and(|stat| stat.is_some());
    // This is the time before the leader ends the session.
    let reason = tokio::select! {
        reason = lost_within(&guard, &since, ms(3_200)) => reason,
        () = async { while reads().await { tokio::time::sleep(ms(50)).await } } => panic!("it answers no reads"),
    };
    assert_eq!(reason, LossReason::Expired);
    assert!(reads().await, "the follower still answers");
    servers.cont(leader);
}

/// A leader that is cut off from the majority answers its own clients until it notices. The others may have elected
/// another leader by then. So an answer of this leader alone must not prolong a lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_its_majority_prolongs_no_lock() {
    // The leader waits for its followers for longer than the session timeout.
    let servers = ZooKeeperServers::builder().members(3).setting("syncLimit=80").start();
    let leader = leader(&servers).await;
    let address = servers.address(leader);
    let locks = connect(&format!("zookeeper://{address}/locks?session_timeout=4s&timeout=2s")).await;
    let other = zookeeper_client::Client::connect(&address.to_string()).await.expect("a client");
    let guard = try_once(&locks, "k").await.expect("free");
    let since = Bound::new(PATIENCE);
    for follower in (0..3).filter(|member| *member != leader) {
        servers.stop(follower);
    }
    // This is the time before the others could end the session.
    assert_eq!(lost_within(&guard, &since, ms(3_200)).await, LossReason::Expired);
    other.sync("/").await.expect("the leader still answers by itself");
    for follower in (0..3).filter(|member| *member != leader) {
        servers.cont(follower);
    }
}

/// The same holds for a waiter that finds its turn by a read. It has written nothing since it began to wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_its_majority_grants_no_turn() {
    let servers = ZooKeeperServers::builder().members(3).setting("syncLimit=80").start();
    let leader = leader(&servers).await;
    let url = format!("zookeeper://{}/locks?session_timeout=4s&timeout=10s", servers.address(leader));
    let (one, other) = (connect(&url).await, connect(&url).await);
    let reader =
        zookeeper_client::Client::connect(&servers.address(leader).to_string()).await.expect("a client");
    let places = async || match reader.list_children("/locks/k").await {
        Ok(places) => places.len(),
        Err(error) => panic!("the places of the key: {error}"),
    };
    let guard = one.fair("k").ttl(LONG).acquire().await.expect("free");
    let mut waits = pin!(other.fair("k").ttl(LONG).wait(PATIENCE).acquire());
    wait_until("it has its place", PATIENCE, async || {
        assert!(tokio::time::timeout(ms(10), &mut waits).await.is_err(), "the key is held");
        places().await == 2
    })
    .await;
    // The waiter is not polled from now on. The session stays alive without it.
    guard.release().await.expect("an answer");
    assert_eq!(places().await, 1);
    for follower in (0..3).filter(|member| *member != leader) {
        servers.stop(follower);
    }
    // By then the others may have ended its session, and may have granted the key to another client.
    tokio::time::sleep(ms(5_000)).await;
    assert_eq!(places().await, 1, "the leader still answers by itself");
    let turn = tokio::time::timeout(ms(3_000), &mut waits).await;
    assert!(turn.is_err(), "{turn:?}");
    assert_eq!(places().await, 1, "its place is still the first one there");
    for follower in (0..3).filter(|member| *member != leader) {
        servers.cont(follower);
    }
}
