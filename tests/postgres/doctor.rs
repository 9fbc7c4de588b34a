//! The findings of `doctor`. Each test causes a fault on a server, finds it, repairs it, and finds it no more.

use std::time::Duration;

use lock_core::backend::postgres::migrate;
use lock_core::backend::postgres::tokio_postgres::IsolationLevel;
use lock_core::{Finding, LockManager, Severity};
use lock_tests::{Clock, PgBouncer, PostgresServer};

use crate::findings::{found, found_saying, gone};
use crate::support::{connect, manager, ms};
use crate::verify::application;

/// The servers of the other tests do not sync their writes to the disk.
const DURABLE: &str = "fsync=on";

const MINUTES_20: Duration = Duration::from_secs(1_200);

async fn rules(locks: &LockManager) -> Vec<&'static str> {
    let findings = locks.doctor().await.expect("an answer");
    findings.iter().map(|one| one.rule).collect()
}

/// Returns the SQL statement that the advice contains, between its first two back quotes.
fn statement(finding: &Finding) -> &str {
    finding.advice.split('`').nth(1).unwrap_or_else(|| panic!("{finding}"))
}

/// Causes `fault`, checks that it is found, executes the statement of the advice, and checks that it is no longer
/// found.
async fn made_and_mended(server: &PostgresServer, locks: &LockManager, fault: &str, rule: &str) -> Finding {
    server.sql(fault);
    let finding = found(locks, rule).await;
    server.sql(statement(&finding));
    if statement(&finding).starts_with("ALTER SYSTEM") {
        server.sql("SELECT pg_reload_conf()");
    }
    gone(locks, rule).await;
    finding
}

fn system(server: &PostgresServer, setting: &str) {
    server.sql(&format!("ALTER SYSTEM SET {setting}"));
    server.sql("SELECT pg_reload_conf()");
}

fn advisory(server: &PostgresServer) -> String {
    format!("{}?mode=advisory&timeout=10s", server.url_of("postgres"))
}

#[tokio::test]
async fn a_healthy_server_has_no_finding_and_a_fault_of_the_tables_one() {
    let server = PostgresServer::with(&[DURABLE]);
    let locks = manager(&server).await;
    assert!(rules(&locks).await.is_empty(), "{:?}", locks.doctor().await);
    let unlogged = "ALTER TABLE lock_core.latch_counts SET UNLOGGED";
    let finding = made_and_mended(&server, &locks, unlogged, "postgres.unlogged").await;
    assert_eq!(finding.severity, Severity::Danger);
    assert!(finding.found.contains("latch_counts"), "{finding}");
    let off = "ALTER TABLE lock_core.latch_counts SET (autovacuum_enabled = off)";
    made_and_mended(&server, &locks, off, "postgres.autovacuum").await;
    for (number, severity) in [(99, Severity::Note), (0, Severity::Danger)] {
        server.sql(&format!("UPDATE lock_core.version SET number = {number}"));
        assert_eq!(found(&locks, "postgres.version").await.severity, severity);
    }
    server.sql("UPDATE lock_core.version SET number = 1");
    gone(&locks, "postgres.version").await;
    for name in ["autovacuum", "full_page_writes"] {
        let rule = format!("postgres.{name}");
        system(&server, &format!("{name} = off"));
        let finding = found(&locks, &rule).await;
        server.sql(statement(&finding));
        server.sql("SELECT pg_reload_conf()");
        gone(&locks, &rule).await;
    }
    assert!(rules(&locks).await.is_empty(), "{:?}", locks.doctor().await);
}

#[tokio::test]
async fn rows_that_are_dead_are_found() {
    let server = PostgresServer::with(&["autovacuum=off"]);
    let locks = manager(&server).await;
    assert_eq!(found(&locks, "postgres.fsync").await.severity, Severity::Danger);
    server.sql("INSERT INTO lock_core.latch_counts SELECT n::text, '' FROM generate_series(1, 310000) n");
    let dead =
        made_and_mended(&server, &locks, "DELETE FROM lock_core.latch_counts", "postgres.dead_rows").await;
    assert!(dead.found.contains("latch_counts has 3"), "{dead}");
}

#[tokio::test]
async fn what_a_user_lacks_is_found() {
    let server = PostgresServer::with(&[DURABLE]);
    migrate(&server.url_of("postgres")).await.expect("the administrator may");
    server.sql(
        "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA lock_core TO app; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN \
         SCHEMA lock_core TO app; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lock_core TO app",
    );
    let url = format!("{}?timeout=10s", server.url_of("app"));
    let locks = connect(&url).await;
    assert!(rules(&locks).await.is_empty(), "{:?}", locks.doctor().await);
    for (fault, what) in [
        ("REVOKE UPDATE ON lock_core.floor FROM app", "UPDATE on floor"),
        ("REVOKE EXECUTE ON FUNCTION lock_core.verify FROM app, PUBLIC", "EXECUTE on verify"),
    ] {
        let finding = made_and_mended(&server, &locks, fault, "postgres.grants").await;
        assert!(finding.severity == Severity::Danger && finding.found.contains(what), "{finding}");
    }
    for kind in ["ROLE app", "DATABASE postgres"] {
        let fault = format!("ALTER {kind} CONNECTION LIMIT 3");
        let finding = made_and_mended(&server, &locks, &fault, "postgres.connection_limit").await;
        assert_eq!(finding.about, kind.to_lowercase());
    }
    // This session belongs to another user.
    let other = manager(&server).await;
    let note = found(&locks, "postgres.unread").await;
    assert_eq!(note.severity, Severity::Note);
    assert_eq!(rules(&locks).await, ["postgres.unread"]);
    server.sql(statement(&note));
    gone(&locks, "postgres.unread").await;
    drop((locks, other));
    for (setting, rule) in [
        ("idle_session_timeout = '1500ms'", "postgres.idle_session_timeout"),
        ("synchronous_commit = off", "postgres.synchronous_commit"),
    ] {
        for of in ["ROLE app", "DATABASE postgres", "ROLE app IN DATABASE postgres"] {
            server.sql(&format!("ALTER {of} SET {setting}"));
            let finding = found(&connect(&url).await, rule).await;
            server.sql(statement(&finding));
            gone(&connect(&url).await, rule).await;
            server.sql("ALTER ROLE app RESET ALL; ALTER DATABASE postgres RESET ALL");
            server.sql("ALTER ROLE app IN DATABASE postgres RESET ALL");
        }
    }
}

#[tokio::test]
async fn few_connections_and_a_full_table_of_locks_are_found() {
    let server = PostgresServer::with(&["max_connections=14", "max_locks_per_transaction=10"]);
    let locks = connect(&advisory(&server)).await;
    let mut clients = vec![application(&server).await];
    let lock = "SELECT pg_advisory_lock(n) FROM generate_series(1, 110) n";
    clients[0].batch_execute(lock).await.expect("there is room");
    found(&locks, "postgres.lock_table").await;
    clients[0].batch_execute("SELECT pg_advisory_unlock_all()").await.expect("an answer");
    gone(&locks, "postgres.lock_table").await;
    let tables = manager(&server).await;
    assert!(rules(&tables).await.iter().all(|rule| *rule != "postgres.connections"));
    while rules(&tables).await.iter().all(|rule| *rule != "postgres.connections") {
        assert!(clients.len() < 12, "{:?}", tables.doctor().await);
        clients.push(application(&server).await);
    }
    drop(clients);
    gone(&tables, "postgres.connections").await;
}

#[tokio::test]
async fn a_standby_that_does_not_count_and_one_that_is_missing_are_found() {
    let primary = PostgresServer::with(&[DURABLE]);
    let locks = manager(&primary).await;
    // A sweep would wait for the missing standby.
    primary.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    let _standby = PostgresServer::standby_of(&primary);
    assert_eq!(found(&locks, "postgres.failover").await.severity, Severity::Warning);
    assert_eq!(
        found(&connect(&advisory(&primary)).await, "postgres.failover").await.severity,
        Severity::Warning
    );
    system(&primary, "synchronous_standby_names = '*'");
    gone(&locks, "postgres.failover").await;
    gone(&locks, "postgres.synchronous_standby").await;
    let weak = format!("{}?options=-c%20synchronous_commit%3Dlocal", primary.url_of("postgres"));
    found(&connect(&weak).await, "postgres.synchronous_commit").await;
    system(&primary, "synchronous_standby_names = 'other'");
    // The processes of the server read the new setting at different moments.
    let finding = found_saying(&locks, "postgres.synchronous_standby", "`other`").await;
    assert_eq!(finding.severity, Severity::Danger, "{finding}");
    primary.sql(statement(&finding));
    primary.sql("SELECT pg_reload_conf()");
    gone(&locks, "postgres.synchronous_standby").await;
}

/// The transaction looks old because the clock of the server is wrong.
#[tokio::test]
async fn a_clock_that_is_wrong_and_transactions_that_stay_open_are_found() {
    let clock = Clock::new();
    let server = PostgresServer::with_clock(&[DURABLE, "max_prepared_transactions=2"], &clock);
    let (locks, mut client) = (manager(&server).await, application(&server).await);
    assert!(rules(&locks).await.is_empty(), "{:?}", locks.doctor().await);
    let set: [(fn(&Clock, Duration), &str); 2] = [(Clock::ahead, "ahead of"), (Clock::behind, "behind")];
    for (set, expected) in set {
        set(&clock, ms(31_000));
        let finding = found(&locks, "postgres.clock").await;
        assert!(finding.found.contains(" is 3") && finding.found.contains(expected), "{finding}");
        set(&clock, ms(0));
        gone(&locks, "postgres.clock").await;
    }

    for (statement, severity) in [
        ("SELECT FROM lock_core.keys FOR UPDATE", Severity::Warning),
        ("LOCK TABLE lock_core.holders IN SHARE MODE", Severity::Danger),
    ] {
        let transaction = client.transaction().await.expect("a transaction");
        transaction.batch_execute(statement).await.expect("it is free");
        let finding = found(&locks, "postgres.idle_in_transaction").await;
        assert_eq!(finding.severity, severity, "{finding}");
        let pid = server.sql("SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'");
        assert!(finding.about.contains(&pid) && finding.advice.contains(&pid), "{finding}");
        transaction.rollback().await.expect("an answer");
        gone(&locks, "postgres.idle_in_transaction").await;
    }

    let report = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .start()
        .await
        .expect("a transaction");
    report.batch_execute("SELECT FROM orders").await.expect("rows");
    gone(&locks, "postgres.old_transaction").await;
    clock.ahead(MINUTES_20);
    let finding = found(&locks, "postgres.old_transaction").await;
    assert!(finding.about.starts_with("process ") && finding.found.contains("20m"), "{finding}");
    report.rollback().await.expect("an answer");
    gone(&locks, "postgres.old_transaction").await;

    clock.ahead(ms(0));
    server.sql("BEGIN; CREATE TABLE forgotten (); PREPARE TRANSACTION 'it''s'");
    clock.ahead(MINUTES_20);
    let finding = found(&locks, "postgres.old_transaction").await;
    server.sql(statement(&finding));
    gone(&locks, "postgres.old_transaction").await;
}

/// A session of a pooler lacks the settings of the library, and uses the search path of its user.
#[tokio::test]
async fn behind_a_pooler_the_timeout_of_the_user_counts() {
    let server = PostgresServer::with(&[DURABLE]);
    migrate(&server.url_of("postgres")).await.expect("the administrator may");
    server.sql(
        "CREATE FUNCTION public.eq(text, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$called$$; END'; \
         CREATE FUNCTION public.eq(name, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$called$$; END'; \
         CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.eq); \
         CREATE OPERATOR public.= (LEFTARG = name, RIGHTARG = text, FUNCTION = public.eq); \
         ALTER ROLE postgres SET search_path = public, pg_catalog",
    );
    for (timeout, expected) in
        [("0", Some(Severity::Note)), ("'5s'", None), ("'900ms'", Some(Severity::Warning))]
    {
        server.sql(&format!("ALTER ROLE postgres SET statement_timeout = {timeout}"));
        let pooler = PgBouncer::before(&server, 3, "");
        let locks = connect(&format!("{}?timeout=10s", pooler.url())).await;
        let findings = locks.doctor().await.expect("an answer");
        let severity =
            findings.iter().find(|one| one.rule == "postgres.statement_timeout").map(|one| one.severity);
        assert_eq!(severity, expected, "{timeout}: {findings:?}");
    }
}
