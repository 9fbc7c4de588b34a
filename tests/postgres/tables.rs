//! The contents of the tables, and the rows that remain in them.

use std::time::Duration;

use lock_core::strategy;
use lock_tests::PostgresServer;

use crate::support::{LONG, connect, cycle, manager, ms, try_once};

fn count(server: &PostgresServer, table: &str) -> u64 {
    server.sql(&format!("SELECT count(*) FROM lock_core.{table}")).parse().expect("a number")
}

fn sweep(server: &PostgresServer) -> u64 {
    server.sql("UPDATE lock_core.floor SET swept_at = '-infinity'");
    server
        .sql("SELECT coalesce((SELECT deleted FROM lock_core.sweep(1000, NULL)), 0)")
        .parse()
        .expect("a number")
}

#[tokio::test]
async fn what_is_over_is_swept_and_what_is_in_use_is_not() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    // This update keeps the connections of a manager from sweeping on their own.
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    for number in 0..30 {
        cycle(&locks, &format!("done{number}")).await;
    }
    let held = try_once(&locks, "held").await.expect("it is free");
    let permit = locks.semaphore("permit", 2).ttl(LONG).acquire().await.expect("it is free");
    let latch = locks.latch("latch");
    latch.set(2).await.expect("it is not set");
    // These rows belong to dead holders and to a dead waiter.
    server.sql(
        "INSERT INTO lock_core.keys (key, fence) VALUES ('dead', 7); INSERT INTO lock_core.holders (key, owner, mode, record, \
         expires_at) VALUES ('dead', repeat('a', 48), 'x', '', now() - interval '1 hour'); INSERT INTO lock_core.waiters VALUES \
         ('dead', repeat('b', 48), 1, now() - interval '1 hour', 1, 'x', '')",
    );
    assert_eq!(count(&server, "keys"), 34);
    assert_eq!(sweep(&server), 31);
    assert_eq!((count(&server, "keys"), count(&server, "holders"), count(&server, "waiters")), (3, 2, 0));
    assert_eq!(
        server.sql("SELECT coalesce((SELECT deleted FROM lock_core.sweep(1000, NULL)), 0)"),
        "0",
        "not again at once"
    );
    assert!(try_once(&locks, "held").await.is_err());
    held.release().await.expect("an answer");
    permit.release().await.expect("an answer");
    assert_eq!(sweep(&server), 2);
}

#[tokio::test]
async fn a_sweep_comes_to_the_end_of_a_large_table_and_begins_again() {
    let server = PostgresServer::start();
    let _locks = manager(&server).await;
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    server.sql("INSERT INTO lock_core.keys (key) SELECT 'k' || n FROM generate_series(1, 2500) n");
    let swept: Vec<u64> = (0..4).map(|_| sweep(&server)).collect();
    assert_eq!(swept, [1000, 1000, 500, 0]);
    assert_eq!(server.sql("SELECT swept_to = '' FROM lock_core.floor"), "t");
}

/// The test cannot set the clock of the server back. It moves the last token ahead of the clock, which has the same
/// effect.
#[tokio::test]
async fn tokens_grow_after_the_key_was_deleted_while_the_clock_is_set_back() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let mut last = 0;
    for deletion in [
        "SELECT 1",
        "DELETE FROM lock_core.keys",
        "TRUNCATE lock_core.keys",
        "SELECT coalesce((SELECT deleted FROM lock_core.sweep(1000, NULL)), 0)",
    ] {
        server.sql("UPDATE lock_core.keys SET fence = fence + 3600000000");
        let ahead: u64 =
            server.sql("SELECT coalesce(max(fence), 0) FROM lock_core.keys").parse().expect("a number");
        server.sql("UPDATE lock_core.floor SET swept_at = '-infinity', swept_to = ''");
        server.sql(deletion);
        for fencing in [true, false] {
            let guard = locks.lock("k").fencing(fencing).acquire().await.expect("it is free");
            let token = guard.fencing_token().await.expect("a token").get();
            assert!(token > last && token > ahead, "{deletion}: {token} after {last}, {ahead}");
            last = token;
            guard.release().await.expect("an answer");
        }
    }
}

/// A session keeps its query plans, which it creates while the tables are small.
#[tokio::test]
async fn no_call_reads_a_whole_table() {
    let server = PostgresServer::start();
    let (locks, other) = (manager(&server).await, manager(&server).await);
    let mut last = locks.fair("line").ttl(ms(900)).acquire().await.expect("it is free");
    // The planner now has the statistics of the small tables.
    for table in ["keys", "holders", "waiters"] {
        server.sql(&format!("VACUUM ANALYZE lock_core.{table}"));
    }
    for number in 0..60 {
        cycle(&locks, &format!("k{}", number % 20)).await;
        let (next, _) = tokio::join!(other.fair("line").ttl(ms(3_000)).wait(LONG).acquire(), last.release());
        last = next.expect("its turn comes");
        last.fencing_token().await.expect("a token");
    }
    tokio::time::sleep(ms(1_500)).await;
    assert!(last.is_held(), "it was renewed");
    // The sessions report their statistics when they end.
    server.sql(
        "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE application_name = 'lock-core'",
    );
    tokio::time::sleep(ms(300)).await;
    let scans = "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = 'lock_core' AND seq_scan > 5 \
                 AND relname IN ('keys', 'holders', 'waiters')";
    let used = "SELECT sum(idx_scan) > 500 FROM pg_stat_user_tables WHERE schemaname = 'lock_core'";
    assert_eq!((server.sql(scans).as_str(), server.sql(used).as_str()), ("", "t"));
}

/// A batch of renewals is one statement.
#[tokio::test]
async fn ten_thousand_renewals_take_two_hundred_statements_at_most() {
    const LOCKS: usize = 2_500;
    let server = PostgresServer::with(&["track_functions=all"]);
    let locks = manager(&server).await;
    let mut guards = Vec::new();
    for number in 0..LOCKS {
        let request = locks.lock(format!("k{number}")).ttl(Duration::from_secs(6));
        guards.push(request.acquire().await.expect("it is free"));
    }
    // Without waiters, only a renewal updates the row of a grant.
    let renewals = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'holders'";
    let number = |text: String| text.parse::<u64>().expect("a number");
    lock_tests::wait_until("ten thousand renewals", LONG, async || number(server.sql(renewals)) >= 10_000)
        .await;
    assert!(guards.iter().all(lock_core::LockGuard::is_held));
    server.sql(
        "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE application_name = 'lock-core'",
    );
    tokio::time::sleep(ms(500)).await;
    let calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname = 'renew'";
    let (calls, renewals) = (number(server.sql(calls)), number(server.sql(renewals)));
    assert!(
        calls > 0 && calls * 50 <= renewals,
        "{calls} statements for {renewals} renewals of {LOCKS} locks"
    );
}

#[tokio::test]
async fn the_tables_show_no_more_than_the_documentation_says() {
    let server = PostgresServer::start();
    let locks = connect(&server.url()).await;
    let other = connect(&server.url()).await;
    let guard = locks.lock("shop").label("pay").ttl(LONG).acquire().await.expect("it is free");
    let row = server.sql("SELECT key, mode, record, kept, length(owner) FROM lock_core.holders");
    assert!(row.starts_with("shop|x|host=") && row.contains("label=pay") && row.ends_with("|f|48"), "{row}");
    let waiting = tokio::spawn(async move {
        other.lock("shop").ttl(LONG).strategy(strategy::retry().within(LONG)).acquire().await
    });
    lock_tests::wait_until("it waits", LONG, async || count(&server, "waiters") == 1).await;
    guard.release().await.expect("an answer");
    waiting.await.expect("no panic").expect("its turn").release().await.expect("an answer");
    lock_tests::wait_until("all is over", LONG, async || count(&server, "holders") == 0).await;
    assert_eq!(count(&server, "waiters"), 0);
}
