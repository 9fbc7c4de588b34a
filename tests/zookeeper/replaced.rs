//! A session that still exists on the servers after the client has begun the next session.

use std::time::Duration;

use lock_core::Released;
use lock_core::backend::zookeeper::ZooKeeper;
use lock_core::backend::{Ask, Attempt, Backend, Claim};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use lock_tests::{PATIENCE, ZooKeeperServers, wait_until};

use crate::support::{LONG, Listening};

const PLACE: Ask = Ask::Enqueue { room: None };

async fn ask(store: &ZooKeeper, claim: &Claim, ask: Ask) -> Attempt {
    let asked = async || store.acquire(claim, ask).await;
    let mut answer = asked().await;
    for _ in 0..10 {
        // The servers have just restarted.
        if answer.is_ok() {
            break;
        }
        answer = asked().await;
    }
    answer.expect("an answer")
}

/// A restarted server gives every session its whole timeout again, even one that its client has given up. If a claim
/// repeats its request in the next session, it must not mistake its node of the old session for its own, because the
/// old node expires.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_the_session_before_is_no_grant_in_the_next_one() {
    // The rival must queue before the servers end the earlier session.
    let mut servers = ZooKeeperServers::builder().tick(Duration::from_millis(500)).start();
    let url = format!("{}?session_timeout=5s", servers.url("locks"));
    let (ours, theirs) = (Claims::new().expect("random bytes"), Claims::new().expect("random bytes"));
    let store = ZooKeeper::connect(&url).await.expect("a store");
    let rival = ZooKeeper::connect(&url).await.expect("a store");
    let listener = Listening::attach(&store, &ours);
    let _other = Listening::attach(&rival, &theirs);
    let key = Key::new("k").expect("a key");
    let (claim, waiter) = (ours.exclusive(&key, LONG), theirs.exclusive(&key, LONG));
    assert!(matches!(ask(&store, &claim, PLACE).await, Attempt::Granted(_)));
    servers.kill9(0);
    listener.session_ended().await;
    servers.restart(0);
    servers.wait_ready(0);
    assert!(
        matches!(ask(&rival, &waiter, PLACE).await, Attempt::Held(_)),
        "the servers have the session before"
    );
    let attempt = ask(&store, &claim, PLACE).await;
    let Attempt::Held(held) = &attempt else { panic!("granted by a node that ends by itself: {attempt:?}") };
    assert_eq!(held.position, Some(0), "behind the rival: {held:?}");
    wait_until("the node of the session before is gone", PATIENCE, async || servers.nodes("locks/k") == 2)
        .await;
    assert!(matches!(ask(&rival, &waiter, PLACE).await, Attempt::Granted(_)));
    assert_eq!(rival.release(&waiter, None).await.expect("an answer"), Released::Released);
    assert!(matches!(ask(&store, &claim, PLACE).await, Attempt::Granted(_)));
    assert_eq!(store.release(&claim, None).await.expect("an answer"), Released::Released);
    assert_eq!(servers.nodes("locks/k"), 0);
}
