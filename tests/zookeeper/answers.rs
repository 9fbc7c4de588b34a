//! Answers that are lost with their connection.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::zookeeper::ZooKeeper;
use lock_core::backend::{Ask, Attempt, Backend};
use lock_core::key::Key;
use lock_core::testkit::{Claims, node_answer};
use lock_core::{LockManager, Released, strategy};
use lock_tests::{Flow, PATIENCE, Proxy, ZooKeeperServers, wait_until};
use tokio::time::timeout;

use crate::support::{
    LONG, Listening, connect, connect_for_long, ms, patient_servers, patient_url, try_once,
};

/// Returns a manager whose connection a test can cut.
async fn through(proxy: &Proxy) -> LockManager {
    connect(&url(proxy)).await
}

fn url(proxy: &Proxy) -> String {
    format!("zookeeper://127.0.0.1:{}/locks?session_timeout=10s&timeout=8s", proxy.port())
}

/// The claim finds the node that it created, and does not wait for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_is_lost_finds_its_own_node() {
    let servers = patient_servers();
    let proxy = Proxy::to(servers.address(0));
    let store = Arc::new(ZooKeeper::connect(&url(&proxy)).await.expect("the server takes locks"));
    let claims = Claims::new().expect("random bytes");
    let _listener = Listening::attach(&store, &claims);
    let key = Key::new("k").expect("a key");
    for round in 0..5 {
        // After the first claim the directory exists, so the first request creates the node.
        let claim = claims.exclusive(&key, LONG);
        if round == 0 {
            assert!(matches!(store.acquire(&claim, Ask::Probe).await, Ok(Attempt::Granted(_))));
            assert_eq!(store.release(&claim, None).await.expect("an answer"), Released::Released);
            continue;
        }
        proxy.replies(Flow::Hold);
        let acquiring = tokio::spawn({
            let (store, claim) = (Arc::clone(&store), claim.clone());
            async move { store.acquire(&claim, Ask::Probe).await }
        });
        wait_until("the node is there", PATIENCE, async || servers.nodes("locks/k") == 1).await;
        assert!(!acquiring.is_finished(), "the answer is held back");
        proxy.cut();
        proxy.heal();
        let attempt = acquiring.await.expect("no panic").expect("an answer");
        assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
        assert_eq!(servers.nodes("locks/k"), 1, "a node too many");
        store.fence(&claim).await.expect("a token for the holder");
        assert_eq!(store.release(&claim, None).await.expect("an answer"), Released::Released);
        assert_eq!(servers.nodes("locks/k"), 0);
    }
}

/// A release whose answer is lost is repeated, and affects no other client.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_answer_is_lost_is_repeated() {
    let servers = patient_servers();
    let proxy = Proxy::to(servers.address(0));
    let (locks, other) = (through(&proxy).await, connect(&patient_url(&servers)).await);
    let guard = try_once(&locks, "k").await.expect("free");
    proxy.replies(Flow::Hold);
    let releasing = tokio::spawn(guard.release());
    wait_until("the node is gone", PATIENCE, async || servers.nodes("locks/k") == 0).await;
    let next = try_once(&other, "k").await.expect("free");
    proxy.cut();
    proxy.heal();
    releasing.await.expect("no panic").expect("an answer");
    assert_eq!(servers.nodes("locks/k"), 1, "it took the node of another");
    assert_eq!(next.release().await.expect("an answer"), Released::Released);
}

/// If the answer to a downgrade is lost, the client keeps the key all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_downgrade_whose_answer_is_lost_keeps_the_key() {
    let servers = patient_servers();
    let proxy = Proxy::to(servers.address(0));
    let (locks, other) = (through(&proxy).await, connect(&patient_url(&servers)).await);
    let guard = locks.write("k").ttl(LONG).acquire().await.expect("free");
    let waiting = tokio::spawn(other.read("k").ttl(LONG).wait(PATIENCE).acquire());
    wait_until("a reader waits", PATIENCE, async || servers.nodes("locks/k") == 2).await;
    proxy.replies(Flow::Hold);
    let downgrading = tokio::spawn(guard.downgrade());
    wait_until("the writer is a reader", PATIENCE, async || {
        servers.names("locks/k").iter().all(|name| name.contains("__READ__"))
    })
    .await;
    assert!(!downgrading.is_finished(), "the answer is held back");
    proxy.cut();
    proxy.heal();
    let reader = downgrading.await.expect("no panic").expect("a reader");
    let beside = waiting.await.expect("no panic").expect("beside it");
    assert!(other.write("k").ttl(LONG).try_acquire().await.expect("an answer").is_none());
    assert_eq!(beside.release().await.expect("an answer"), Released::Released);
    assert!(other.write("k").ttl(LONG).try_acquire().await.expect("an answer").is_none());
    assert_eq!(reader.release().await.expect("an answer"), Released::Released);
}

/// A waiter repeats its request while there is no connection, and is then given up. Its node exists nevertheless, and
/// must be released long before the session ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_is_given_up_without_a_connection_is_released() {
    let servers = ZooKeeperServers::builder().tick(Duration::from_secs(2)).start();
    let proxy = Proxy::to(servers.address(0));
    let url = |port| format!("zookeeper://127.0.0.1:{port}/locks?session_timeout=20s&timeout=8s");
    let locks = connect_for_long(&url(proxy.port())).await;
    let other = connect_for_long(&url(servers.address(0).port())).await;
    let guard = try_once(&other, "k").await.expect("free");
    let mut waiter = Box::pin(locks.lock("k").ttl(LONG).strategy(strategy::wait()).acquire());
    wait_until("it is queued", PATIENCE, async || {
        let waits = timeout(ms(20), &mut waiter).await.is_err();
        waits && servers.nodes("locks/k") == 2
    })
    .await;
    proxy.refuse(true);
    proxy.cut();
    // The waiter relies on the watch for 2 s, and then sends a request.
    assert!(timeout(ms(3_000), &mut waiter).await.is_err(), "there is no connection");
    drop(waiter);
    proxy.heal();
    wait_until("only the holder is left", ms(14_000), async || servers.nodes("locks/k") == 1).await;
    guard.release().await.expect("an answer");
}

#[tokio::test]
async fn the_ensemble_that_answers_is_reported() {
    let servers = ZooKeeperServers::start();
    let store = ZooKeeper::connect(&crate::support::url(&servers)).await.expect("it takes locks");
    let (node, took) = node_answer(&store, 1, PATIENCE).await;
    assert_eq!(node, servers.address(0).to_string());
    assert!(!took.is_zero() && took < PATIENCE, "{took:?}");
}
