//! A server whose clock was set does not vote.

use std::sync::Arc;
use std::time::Duration;

use lock_core::LockError;
use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_core::backend::{Ask, Backend};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use lock_tests::{Clock, RedisServer};

use crate::support::{Client, MAX_TTL, assert_quarantined, ms, new_cluster, quarantine};

const STEP: Duration = Duration::from_secs(31);

/// Starts a server that votes, and returns its clock.
async fn server() -> (RedisServer, Arc<Clock>) {
    let clock = Arc::new(Clock::new());
    let server = RedisServer::builder().clock(&clock).start();
    new_cluster(&[&server], MAX_TTL).await;
    (server, clock)
}

fn assert_jumped(error: &LockError) {
    assert!(error.to_string().contains("clock jumped") && error.is_temporary(), "{error}");
    assert!(error.retry_after().expect("it says how long") <= quarantine(MAX_TTL));
}

#[tokio::test]
async fn a_step_costs_the_vote_for_the_longest_lease() {
    for forward in [true, false] {
        let (server, clock) = server().await;
        let client = Client::of(&server, MAX_TTL).await;
        client.take("k", MAX_TTL).await;
        // If the clock was set forward, the key expires on the server before its lease has ended. If it was set back,
        // the key stays too long, and a wrong "no" does no harm.
        let key = if forward { "k" } else { "other" };
        if forward {
            clock.ahead(STEP)
        } else {
            clock.behind(STEP)
        }
        assert_jumped(&client.refusal(key, MAX_TTL).await);
        let after = client.votes_again("other", MAX_TTL).await;
        assert!(after > quarantine(MAX_TTL) / 2, "{after:?}");
    }
}

/// A server that restarts while its clock is ahead begins a quarantine in the future. Once the clock is corrected, the
/// quarantine lasts no longer than usual.
#[tokio::test]
async fn a_quarantine_that_began_in_the_future_is_no_longer_than_others() {
    let (mut server, clock) = server().await;
    clock.ahead(Duration::from_secs(3_600));
    server.restart();
    let before = Client::of(&server, MAX_TTL).await;
    assert_quarantined(&before.refusal("k", MAX_TTL).await, MAX_TTL);
    clock.ahead(Duration::ZERO);
    let after = Client::of(&server, MAX_TTL).await;
    assert_quarantined(&after.refusal("k", MAX_TTL).await, MAX_TTL);
    let again = after.votes_again("k", MAX_TTL).await;
    assert!(again > quarantine(MAX_TTL) / 2, "it begins anew: {again:?}");
    before.votes_again("k", MAX_TTL).await;
}

#[tokio::test]
async fn a_clock_that_runs_is_no_step() {
    let (server, clock) = server().await;
    let client = Client::of(&server, MAX_TTL).await;
    clock.ahead(ms(20));
    let claim = client.take("k", MAX_TTL).await;
    client.release(&claim).await;
    assert!(client.voter.clock_offset().is_some());
}

/// A client without a history compares the server's clock with those of the others.
#[tokio::test]
async fn a_fresh_client_compares_the_clocks() {
    let (one, clock) = server().await;
    let (two, three) = (RedisServer::start(), RedisServer::start());
    new_cluster(&[&two, &three], MAX_TTL).await;
    clock.ahead(STEP);
    let urls = [one.url(), two.url(), three.url()];
    let options = VoterOptions::new(MAX_TTL);
    let voters = Voter::connect_all(urls.iter().map(String::as_str), options).await.expect("all are up");
    let claims = Claims::new().expect("random bytes");
    let claim = claims.exclusive(&Key::new("k").expect("a key"), MAX_TTL);
    assert_jumped(&voters[0].acquire(&claim, Ask::Try).await.expect_err("its clock is wrong"));
    for voter in &voters[1..] {
        assert!(voter.acquire(&claim, Ask::Try).await.is_ok());
    }
    // The clock stays wrong, but every lease from before the first check has ended.
    tokio::time::sleep(quarantine(MAX_TTL)).await;
    assert!(voters[0].acquire(&claim, Ask::Try).await.is_ok());
}
