//! A primary is lost, and a standby is promoted.

use std::time::Duration;

use lock_core::testkit::names;
use lock_core::{LockErrorKind, LockManager, LossReason};
use lock_tests::{PATIENCE, PostgresServer, wait_until};

use crate::support::{LONG, connect, try_once, within, works_again};

const SOON: Duration = PATIENCE;

/// Returns a primary, its standby and the URL of both.
async fn pair() -> (PostgresServer, PostgresServer, String) {
    let primary = PostgresServer::start();
    connect(&primary.url()).await.shutdown(SOON).await;
    let standby = PostgresServer::standby_of(&primary);
    // The standby is first in the URL, so the client has to skip it.
    let url = format!("postgres://postgres@{},{}/postgres", standby.address(), primary.address());
    (primary, standby, url)
}

/// Waits until the standby has received all commits of the primary.
async fn replicated(primary: &PostgresServer, standby: &PostgresServer) {
    let at = primary.sql("SELECT pg_current_wal_flush_lsn()");
    let reached = format!("SELECT pg_last_wal_replay_lsn() >= '{at}'");
    wait_until("the standby has all", PATIENCE, async || standby.sql(&reached) == "t").await;
}

#[tokio::test]
async fn a_standby_grants_nothing() {
    let (_primary, standby, url) = pair().await;
    let error = LockManager::connect(&standby.url_of("postgres")).await.expect_err("it takes no writes");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("connect to its primary"), "{error}");
    works_again(&connect(&url).await, "k").await;
}

/// A name may resolve to the primary, its standbys, and servers that have ended. The port of the URL does not matter
/// here.
#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    let (primary, standby, _) = pair().await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("an address");
    for others in [vec![standby.address()], vec![silent], vec![silent, standby.address()]] {
        let addresses: Vec<_> = others.iter().copied().chain([primary.address()]).collect();
        names::lead("several.test", &addresses);
        works_again(&connect("postgres://postgres@several.test/postgres").await, "k").await;
    }
    // The connect waits for neither server, so it reports the failure of the standby.
    let nobody = "127.0.0.1:1".parse().expect("an address");
    names::lead("standbys.test", &[standby.address(), nobody]);
    let url = "postgres://postgres@standbys.test/postgres?connect_timeout=2s";
    let error = LockManager::connect(url).await.expect_err("no primary");
    assert!(error.is_temporary(), "{error}");
}

#[tokio::test]
async fn a_lock_that_was_replicated_outlives_the_primary() {
    let (mut primary, standby, url) = pair().await;
    let (one, other) = (connect(&url).await, connect(&url).await);
    let guard = one.lock("k").ttl(LONG).acquire().await.expect("it is free");
    let token = guard.fencing_token().await.expect("a token");
    replicated(&primary, &standby).await;
    primary.crash();
    standby.promote();
    works_again(&other, "other").await;
    let refused = try_once(&other, "k").await.expect_err("it is held");
    assert_eq!(refused.kind(), LockErrorKind::Contended, "{refused}");
    works_again(&one, "other").await;
    guard.release().await.expect("the new primary has it");
    let guard = try_once(&other, "k").await.expect("it is free");
    assert!(guard.fencing_token().await.expect("a token") > token);
}

/// The documentation excludes this case from its promise: the grant was not replicated. The holder is notified, and the
/// next token is larger.
#[tokio::test]
async fn a_lock_that_was_not_replicated_is_lost_and_its_holder_told() {
    let (mut primary, standby, url) = pair().await;
    let (one, other) = (connect(&url).await, connect(&url).await);
    replicated(&primary, &standby).await;
    standby.detach();
    let guard = one.lock("k").ttl(Duration::from_secs(6)).acquire().await.expect("it is free");
    let token = guard.fencing_token().await.expect("a token");
    primary.crash();
    standby.promote();
    works_again(&other, "other").await;
    let next = try_once(&other, "k").await.expect("the new primary does not know it");
    assert!(next.fencing_token().await.expect("a token") > token);
    assert_eq!(within(SOON, "the report", guard.lost()).await, LossReason::Taken);
    assert!(next.is_held());
}
