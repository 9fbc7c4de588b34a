//! A row that another client's session keeps locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::clock::Clock;
use lock_core::{LockErrorKind, strategy};
use lock_tests::{PATIENCE, PostgresServer};
use tokio::task::JoinSet;

use crate::support::{LONG, connect, cycle, manager, ms, try_once, works_again};
use crate::verify::application;

/// Counts the sessions of the library.
const SESSIONS: &str =
    "SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE application_name = 'lock-core'";

/// The calls for such a key fail in sequence, and delay the answers to all other calls. The connection stays open.
#[tokio::test]
async fn a_stuck_key_ends_no_connection() {
    let server = PostgresServer::start();
    let (locks, mut client) = (manager(&server).await, application(&server).await);
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    cycle(&locks, "stuck").await;
    let before = server.sql(SESSIONS);
    let transaction = client.transaction().await.expect("a transaction");
    transaction
        .batch_execute("SELECT FROM lock_core.keys WHERE key = 'stuck' FOR UPDATE")
        .await
        .expect("a row");
    let started = Clock::Suspend.now();
    let mut calls = JoinSet::new();
    for _ in 0..6 {
        let locks = locks.clone();
        calls.spawn(async move {
            while Clock::Suspend.now().since(started) < Duration::from_secs(4) {
                let error = try_once(&locks, "stuck").await.expect_err("its row is locked");
                assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
            }
        });
    }
    while let Some(call) = calls.join_next().await {
        call.expect("no panic");
    }
    let gone = format!(
        "SELECT count(*) FROM unnest('{{{before}}}'::integer[]) b WHERE b NOT IN (SELECT pid FROM pg_stat_activity)"
    );
    assert_eq!(server.sql(&gone), "0", "the same connections");
    transaction.rollback().await.expect("an answer");
}

/// Many tasks repeatedly request such a key, for longer than a connection may be late. The other tasks of the process
/// continue over the same connection.
#[tokio::test]
async fn a_crowd_at_a_stuck_key_holds_nobody_else_up() {
    let server = PostgresServer::start();
    let locks = connect(&format!("{}&timeout=3s", server.hasty_url())).await;
    let mut client = application(&server).await;
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    cycle(&locks, "stuck").await;
    let before = server.sql(SESSIONS);
    let transaction = client.transaction().await.expect("a transaction");
    transaction
        .batch_execute("SELECT FROM lock_core.keys WHERE key = 'stuck' FOR UPDATE")
        .await
        .expect("a row");
    let started = Clock::Suspend.now();
    let (asked, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut crowd = JoinSet::new();
    for number in 0..30 {
        let (locks, asked, over) = (locks.clone(), Arc::clone(&asked), Arc::clone(&over));
        crowd.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                asked.fetch_add(1, Ordering::Relaxed);
                let request = locks.lock("stuck").ttl(if number % 2 == 0 { LONG } else { ms(400) });
                let error =
                    request.strategy(strategy::fail_fast()).acquire().await.expect_err("its row is locked");
                assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
                assert!(error.is_temporary(), "{error}");
                tokio::time::sleep(ms(20)).await;
            }
        });
    }
    let mut cycles = 0;
    // If the other tasks were delayed, each cycle would take as long as a call may.
    let is_shown = |cycles| cycles > 100 && asked.load(Ordering::Relaxed) > 1_000;
    while Clock::Suspend.now().since(started) < Duration::from_secs(9) || !is_shown(cycles) {
        assert!(
            Clock::Suspend.now().since(started) < PATIENCE * 2,
            "{cycles} cycles of another key, {asked:?} questions"
        );
        cycle(&locks, "another").await;
        cycles += 1;
    }
    over.store(true, Ordering::Relaxed);
    while let Some(one) = crowd.join_next().await {
        one.expect("no panic");
    }
    let gone = format!(
        "SELECT count(*) FROM unnest('{{{before}}}'::integer[]) b WHERE b NOT IN (SELECT pid FROM pg_stat_activity)"
    );
    assert_eq!(server.sql(&gone), "0", "the same connections");
    transaction.rollback().await.expect("an answer");
    works_again(&locks, "stuck").await;
}

#[tokio::test]
async fn one_locked_grant_holds_up_no_renewal_of_others() {
    let server = PostgresServer::start();
    let (locks, mut client) = (manager(&server).await, application(&server).await);
    let one = try_once(&locks, "one").await.expect("it is free");
    let two = try_once(&locks, "two").await.expect("it is free");
    let transaction = client.transaction().await.expect("a transaction");
    transaction
        .batch_execute("UPDATE lock_core.holders SET record = record WHERE key = 'one'")
        .await
        .expect("a row");
    let renew = "SELECT r.number, r.waiting FROM (SELECT array_agg(key ORDER BY key) AS keys, array_agg(owner ORDER BY key) AS \
                 owners FROM lock_core.holders) h, lock_core.renew(h.keys || 'three'::text, h.owners || 'nobody'::text, \
                 '{70000000,70000000,70000000}', '{0,0,0}') r ORDER BY 1";
    assert_eq!(server.sql(renew), "1|\n2|0", "the first is not known, the third not ours");
    transaction.rollback().await.expect("an answer");
    assert_eq!(server.sql(renew), "1|0\n2|0");
    one.release().await.expect("an answer");
    two.release().await.expect("an answer");
}
