//! One leader at a time, whatever happens to the processes.

use std::time::Duration;

use lock_tests::RedisServer;

use crate::leaders::{Party, survive};

const TTL: Duration = Duration::from_millis(900);

/// Kills twenty leaders in sequence.
#[tokio::test]
async fn a_leader_that_is_killed_is_followed_after_its_ttl() {
    let server = RedisServer::start();
    let took = survive(&server.url(), TTL, 5, 20).await;
    // The test checks the shortest time, because a busy machine delays most of them.
    let least = took.iter().min().expect("twenty");
    assert!(*least < TTL + Duration::from_secs(1), "{took:?}");
    // The leases were renewed, so the others had to wait.
    assert!(took.iter().sum::<Duration>() > TTL / 3 * 20, "{took:?}");
    assert!(server.keys().iter().all(|key| key.ends_with(":f")), "{:?}", server.keys());
}

/// Another process leads while the first leader is stopped. The first leader is notified before it continues.
#[tokio::test]
async fn a_leader_that_is_stopped_does_not_lead_when_it_goes_on() {
    let server = RedisServer::start();
    let mut party = Party::start(&server.url(), TTL, 3, &[]).await;
    let mut leader = party.leader_after(0).await;
    for _ in 0..3 {
        leader = party.pause_leader(&leader).await;
    }
    let outcome = party.end().await;
    outcome.check().unwrap_or_else(|violation| panic!("{violation}"));
}

/// This is the negative control: the same checks while each process leads on its own.
#[tokio::test]
async fn several_leaders_at_once_are_found_out() {
    let mut party = Party::start("", TTL, 2, &["--alone"]).await;
    party.all_lead().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let found = party.end().await.check().expect_err("two lead");
    assert!(found.contains("held one key at once") || found.contains("refused"), "{found}");
}
