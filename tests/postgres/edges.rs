//! Rows that the functions rarely meet.

use lock_core::backend::postgres::{Postgres, migrate};
use lock_core::testkit::node_answer;
use lock_core::{LockErrorKind, LockManager};
use lock_tests::{PATIENCE, PostgresServer};

use crate::support::{cycle, manager, try_once};

/// A copy of a request arrives after the release.
#[tokio::test]
async fn a_late_copy_does_not_shorten_the_time_for_which_a_permit_stays_taken() {
    let server = PostgresServer::start();
    let _locks = manager(&server).await;
    let acquire =
        "SELECT verdict FROM lock_core.acquire('k', repeat('a', 48), '', 'p2', 10000000, false, null, false)";
    assert_eq!(server.sql(acquire), "1");
    assert_eq!(server.sql("SELECT lock_core.release(ARRAY['k'], repeat('a', 48), 'p2', 60000000, 0)"), "1");
    assert_eq!(server.sql(acquire), "0");
    let left = "SELECT kept, expires_at > now() + interval '30 seconds' FROM lock_core.holders";
    assert_eq!(server.sql(left), "t|t");
}

#[tokio::test]
async fn a_list_has_keys_of_the_last_letters_of_all() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let last = "\u{10ffff}".repeat(100);
    let guard = try_once(&locks, &last).await.expect("it is free");
    assert_eq!(locks.locks_matching("").await.expect("a list").locks.len(), 1);
    assert_eq!(locks.locks_matching(&last[..4]).await.expect("a list").locks.len(), 1);
    assert_eq!(locks.locks_matching("\0").await.expect("a list").locks.len(), 0);
    guard.release().await.expect("an answer");
}

#[tokio::test]
async fn sweeps_go_on_after_the_clock_was_set_back() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let swept = "SELECT coalesce((SELECT deleted FROM lock_core.sweep(1000, NULL)), 0)";
    for (at, expected) in
        [("infinity", "0"), ("now() + interval '1 minute'", "0"), ("now() + interval '1 hour'", "1")]
    {
        server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
        cycle(&locks, "k").await;
        let at = if at == "infinity" { "'infinity'" } else { at };
        assert_eq!(
            server.sql(&format!("UPDATE lock_core.floor SET swept_at = {at}, swept_to = ''; {swept}")),
            expected,
            "{at}"
        );
    }
}

/// Some of the tables were restored from a backup.
#[tokio::test]
async fn grants_without_the_row_of_their_key_are_swept() {
    let server = PostgresServer::start();
    let _locks = manager(&server).await;
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    server.sql(
        "INSERT INTO lock_core.holders (key, owner, mode, record, expires_at) VALUES \
         ('over', repeat('a', 48), 'x', '', now() - interval '1 hour'), \
         ('held', repeat('b', 48), 'x', '', now() + interval '1 hour')",
    );
    server.sql("UPDATE lock_core.floor SET swept_at = '-infinity'; SELECT coalesce((SELECT deleted FROM lock_core.sweep(1000, NULL)), 0)");
    assert_eq!(server.sql("SELECT key FROM lock_core.holders"), "held");
}

#[tokio::test]
async fn a_server_that_lets_nobody_write_says_so() {
    let server = PostgresServer::start();
    migrate(&server.url_of("postgres")).await.expect("the administrator may");
    server.sql("ALTER DATABASE postgres SET default_transaction_read_only = on");
    let error = LockManager::connect(&server.url_of("postgres")).await.expect_err("it is read-only");
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    assert!(
        error.to_string().contains("`default_transaction_read_only`") && !error.is_temporary(),
        "{error}"
    );
}

#[tokio::test]
async fn the_server_that_answers_is_reported() {
    let server = PostgresServer::start();
    let _locks = manager(&server).await;
    let store = Postgres::connect(&server.url()).await.expect("it takes locks");
    let (node, took) = node_answer(&store, 1, PATIENCE).await;
    assert_eq!(node, server.address().to_string());
    assert!(!took.is_zero() && took < PATIENCE, "{took:?}");
}
