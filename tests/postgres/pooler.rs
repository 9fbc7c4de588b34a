//! A pooler that shares its connections among transactions.

use std::sync::Arc;

use lock_core::backend::Backend;
use lock_core::backend::postgres::{Postgres, migrate};
use lock_core::testkit::contract;
use lock_core::{LockErrorKind, LockManager};
use lock_tests::{PgBouncer, PostgresServer};
use tokio::task::JoinSet;

use crate::contract::{keeps_the_contract, subject};
use crate::sessions::{nothing_is_set, other_client};
use crate::support::{LONG, connect, empty, ms};

/// Starts a server with the tables, and a pooler in front of it.
async fn pooled(extra: &str) -> (PostgresServer, PgBouncer) {
    let server = PostgresServer::start();
    let pooler = PgBouncer::before(&server, 3, extra);
    migrate(&pooler.url()).await.expect("the administrator may");
    (server, pooler)
}

#[tokio::test]
async fn a_pooler_keeps_the_contract_with_notifications_past_it() {
    let (server, pooler) = pooled("").await;
    keeps_the_contract(&format!("{}?listen={}&timeout=10s", pooler.url(), server.address()), &[]).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(other_client(&pooler.url()).await);
    }
    nothing_is_set(&others.iter().collect::<Vec<_>>()).await;
}

/// Without notifications, everything else works: the answer to the release notifies a waiter in the holder's process.
/// The second pooler accepts settings of a session, and drops them.
#[tokio::test]
async fn a_pooler_alone_tells_nothing_and_excludes_all_the_same() {
    let (_server, pooler) = pooled("ignore_startup_parameters = options").await;
    let url = format!("{}?timeout=10s", pooler.url());
    let postgres = Arc::new(Postgres::connect(&url).await.expect("it takes locks"));
    assert!(!postgres.capability().waiting.tells_holder(), "it is found out");
    let report = contract::run(|| std::future::ready(subject(&postgres))).await;
    let failed: Vec<_> = report.failures.iter().map(|failure| failure.case).collect();
    let told = [
        "listener::the_opening_of_a_latch_is_told",
        "inspect::one_whose_grant_is_taken_away_is_told_and_loses",
    ];
    assert!(failed.iter().all(|case| told.contains(case)), "{report}");
    assert_eq!(failed.len(), told.len(), "{report}");
}

#[tokio::test]
async fn many_clients_share_few_connections() {
    let (server, pooler) = pooled("").await;
    let mut tasks = JoinSet::new();
    for number in 0..12 {
        let url = format!("{}?listen={}&timeout=5s", pooler.url(), server.address());
        tasks.spawn(async move {
            let locks = connect(&url).await;
            for round in 0..10 {
                let key = format!("k{}", (number + round) % 3);
                let guard = locks.fair(key).ttl(LONG).wait(LONG).acquire().await.expect("its turn comes");
                tokio::time::sleep(ms(1)).await;
                guard.release().await.expect("an answer");
            }
        });
    }
    tasks.join_all().await;
    empty(&server, LONG).await;
    let backends = server.sql("SELECT count(*) FROM pg_prepared_statements");
    assert_eq!(backends, "0");
}

#[tokio::test]
async fn a_lock_that_lingers_needs_notifications() {
    let (_server, pooler) = pooled("").await;
    let locks = connect(&format!("{}?timeout=10s", pooler.url())).await;
    let error = locks.lock("k").linger(ms(5)).acquire().await.expect_err("nobody would tell it of a waiter");
    assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
}

#[tokio::test]
async fn a_transaction_that_is_no_read_committed_is_refused_behind_a_pooler() {
    let server = PostgresServer::start();
    migrate(&server.url_of("postgres")).await.expect("the administrator may");
    // The change comes before the pooler opens a connection, because a connection keeps its first settings.
    server.sql("ALTER DATABASE postgres SET default_transaction_isolation = 'repeatable read'");
    let pooler = PgBouncer::before(&server, 3, "");
    let error = LockManager::connect(&pooler.url()).await.expect_err("it would grant twice");
    assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("repeatable read"), "{error}");
}
