//! The requirements that a server must meet before it serves locks, and the errors if it does not meet them.

use lock_core::backend::postgres::advisory::PostgresAdvisory;
use lock_core::backend::postgres::{Postgres, migrate, migration};
use lock_core::{LockError, LockErrorKind, LockManager};
use lock_tests::{PostgresServer, Proxy};

use crate::outside::{every_call_outside, refused_outside};
use crate::support::{connect, cycle, ms};

async fn refused(url: &str) -> LockError {
    let error = LockManager::connect(url).await.expect_err(url);
    assert!(!error.is_temporary(), "nothing changes by itself: {error}");
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    error
}

#[tokio::test]
async fn the_tables_are_made_only_when_that_is_asked_for() {
    let server = PostgresServer::start();
    let url = server.url_of("postgres");
    let error = refused(&url).await;
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    let text = error.to_string();
    assert!(text.contains("postgres::migrate(url)") && text.contains("?migrate=true"), "{text}");
    assert_eq!(
        server.sql("SELECT to_regnamespace('lock_core') IS NULL"),
        "t",
        "nothing behind the user's back"
    );
    // Several migrations run at once, and then again.
    let (one, two, three) = tokio::join!(migrate(&url), migrate(&url), migrate(&url));
    for made in [one, two, three] {
        made.expect("the administrator may");
    }
    let locks = connect(&url).await;
    cycle(&locks, "k").await;
    migrate(&url).await.expect("again");
    cycle(&locks, "k").await;
    // With the option, the tables of an earlier version are migrated, and those of the current version stay unchanged.
    server.sql("DROP FUNCTION lock_core.sweep; UPDATE lock_core.version SET number = 0");
    let there = "SELECT to_regproc('lock_core.sweep') IS NOT NULL";
    connect(&server.url()).await;
    assert_eq!(server.sql(there), "t");
    server.sql("DROP FUNCTION lock_core.sweep");
    connect(&server.url()).await;
    assert_eq!(server.sql(there), "f");
    migrate(&url).await.expect("again");
    assert_eq!(server.sql(there), "t");
    server.sql("UPDATE lock_core.version SET number = 0");
    assert!(refused(&url).await.to_string().contains("missing or too old"));
    server.sql("UPDATE lock_core.version SET number = 99");
    cycle(&connect(&url).await, "k").await;
}

#[tokio::test]
async fn the_text_of_the_migration_can_be_run_by_hand() {
    let server = PostgresServer::start();
    server.sql(&migration("shop_locks").expect("a name"));
    let url = format!("{}?schema=shop_locks&timeout=10s", server.url_of("postgres"));
    cycle(&connect(&url).await, "k").await;
    assert_eq!(server.sql("SELECT to_regnamespace('lock_core') IS NULL"), "t");
    let other = format!("{}?schema=other&migrate=true&timeout=10s", server.url_of("postgres"));
    cycle(&connect(&other).await, "k").await;
}

/// Returns the statements that the error about missing permissions advises.
fn grants(error: &str) -> &str {
    let from = error.find("GRANT ").expect("it has the statements");
    error[from..].split('`').next().expect("they end")
}

#[tokio::test]
async fn a_user_needs_no_more_than_the_error_and_the_documentation_say() {
    let server = PostgresServer::start();
    migrate(&server.url_of("postgres")).await.expect("the administrator may");
    server.sql("CREATE ROLE app LOGIN");
    let without = refused(&server.url_of("app")).await.to_string();
    assert!(without.contains("lacks a permission"), "{without}");
    let error = refused(&format!("{}?schema=mine&migrate=true", server.url_of("app"))).await;
    assert!(error.to_string().contains("lacks a permission"), "{error}");
    let docs = include_str!("../../lock-core/src/backend/postgres/docs.md");
    for statement in grants(&without).split_inclusive(';') {
        assert!(docs.contains(statement.trim()), "the documentation says the same: {statement}");
    }
    server.sql(grants(&without));
    let locks = connect(&format!("{}?timeout=10s", server.url_of("app"))).await;
    cycle(&locks, "k").await;
    let guard = locks.fair("k").acquire().await.expect("it is free");
    guard.fencing_token().await.expect("a token");
    locks.locks().await.expect("a list");
    guard.release().await.expect("an answer");
}

#[tokio::test]
async fn a_server_that_cannot_be_used_says_why() {
    let server = PostgresServer::start();
    let user = PostgresServer::WITH_PASSWORD;
    server.sql(&format!("CREATE ROLE {user} LOGIN PASSWORD 'right'"));
    server.sql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let at = server.address();
    let table = [
        (format!("postgres://{user}:s3cret@{at}/postgres"), "refuses the user or the password"),
        (format!("postgres://{user}@{at}/postgres"), "password"),
        (format!("postgres://nobody@{at}/postgres"), "refuses the user or the password"),
        (format!("postgres://postgres@{at}/nothing"), "no database of this name"),
        (format!("postgres://postgres@{at}/latin"), "the database is in LATIN1"),
    ];
    for (url, expected) in table {
        let error = LockManager::connect(&url).await.expect_err(&url);
        assert!(error.to_string().contains(expected), "{url}: {error}");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
    let url = format!("postgres://{user}:right@{at}/postgres");
    assert!(refused(&url).await.to_string().contains("missing"), "the password is right");
    let closed = LockManager::connect("postgres://u@127.0.0.1:1/d?connect_timeout=500ms").await;
    let closed = closed.expect_err("nobody listens there");
    assert!(closed.is_temporary() && closed.to_string().contains("is the server up?"), "{closed}");
    assert!(closed.to_string().contains("times within 500ms"), "{closed}");
    let tls = LockManager::connect(&format!("postgres://postgres@{at}/postgres?sslmode=require")).await;
    let tls = tls.expect_err("it has no TLS").to_string();
    assert!(tls.contains("TLS") && !tls.contains("tried"), "{tls}");
}

/// The session has its own settings, so the defaults of a user or a database do not matter.
#[tokio::test]
async fn another_isolation_by_default_changes_nothing() {
    let server = PostgresServer::start();
    migrate(&server.url_of("postgres")).await.expect("the administrator may");
    server.sql("ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'");
    cycle(&connect(&format!("{}?timeout=10s", server.url_of("postgres"))).await, "k").await;
    let call = "SELECT lock_core.lock_row('k', true)";
    let error = server.try_sql(call).expect_err("it is refused inside too");
    assert!(error.contains("READ COMMITTED"), "{error}");
}

/// A server that has just started, or has only a fraction of a core, accepts connections before it answers.
#[tokio::test]
async fn a_server_that_greets_late_is_waited_for() {
    let server = PostgresServer::start();
    migrate(&server.url()).await.expect("the administrator may");
    let proxy = Proxy::to(server.address());
    for mode in ["leases", "advisory"] {
        let url = format!("{}?mode={mode}", server.url_at(proxy.port()).split('?').next().expect("a URL"));
        let connecting = async move { LockManager::connect(&url).await };
        let locks = Proxy::greeting_late(std::slice::from_ref(&proxy), ms(3_000), connecting).await;
        cycle(&locks.expect("the server has answered"), "k").await;
    }
}

#[tokio::test]
async fn a_server_that_starts_is_waited_for() {
    let mut server = PostgresServer::start();
    migrate(&server.url()).await.expect("the administrator may");
    server.crash();
    let url = server.url();
    let connecting = tokio::spawn(async move { LockManager::connect(&url).await });
    tokio::time::sleep(ms(1_500)).await;
    assert!(!connecting.is_finished(), "it still tries");
    server.restart();
    cycle(&connecting.await.expect("no panic").expect("the server has started"), "k").await;
}

#[tokio::test]
async fn of_several_hosts_the_one_that_takes_writes_is_used() {
    let server = PostgresServer::start();
    let at = server.address();
    let url = format!("postgres://postgres@127.0.0.1:1,{at}/postgres?migrate=true");
    cycle(&connect(&url).await, "k").await;
}

/// A plain executor polls each call. The call works, or its error says what is missing.
#[test]
fn no_call_panics_outside_of_tokio() {
    let server = PostgresServer::start();
    every_call_outside(&server.url());
    refused_outside(Postgres::connect(&server.url()));
    refused_outside(PostgresAdvisory::connect(&server.url()));
    refused_outside(migrate(&server.url()));
}
