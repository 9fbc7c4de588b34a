//! The check of a lease inside a transaction of the application.

use std::time::Duration;

use lock_core::backend::postgres::tokio_postgres::{self, Client, NoTls, config::SslMode, types::Type};
use lock_core::{LockErrorKind, LockManager, Released, strategy};
use lock_tests::{PATIENCE, PostgresServer, wait_until};
use tokio::net::TcpStream;

use crate::support::{LONG, manager, ms, try_once, within};

const SOON: Duration = PATIENCE;

/// Returns a client of the application, with its own table.
pub(crate) async fn application(server: &PostgresServer) -> Client {
    server.sql("CREATE TABLE IF NOT EXISTS orders (id integer, paid boolean); DELETE FROM orders");
    let stream = TcpStream::connect(server.address()).await.expect("the server listens");
    let mut config = tokio_postgres::Config::new();
    config.user("postgres").dbname("postgres").ssl_mode(SslMode::Disable);
    let (client, connection) = config.connect_raw(stream, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

const PAY: &str = "INSERT INTO orders VALUES (42, true)";

fn paid(server: &PostgresServer) -> bool {
    server.sql("SELECT count(*) FROM orders") == "1"
}

/// Acquires `k` with a lease that is not renewed, and that is long enough for a transaction to begin.
async fn brief(locks: &LockManager) -> lock_core::LockGuard {
    locks.lock("k").ttl(ms(1_000)).renew(false).acquire().await.expect("it is free")
}

#[tokio::test]
async fn a_holder_commits() {
    let server = PostgresServer::start();
    let (locks, mut client) = (manager(&server).await, application(&server).await);
    let guard = try_once(&locks, "k").await.expect("it is free");
    let mut transaction = client.transaction().await.expect("a transaction");
    transaction.batch_execute(PAY).await.expect("an insert");
    guard.verify_in(&mut transaction).await.expect("the lease lives");
    guard.handle().verify_in(&mut transaction).await.expect("twice is no more than once");
    transaction.commit().await.expect("a commit");
    assert!(paid(&server));
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

/// The holder was stopped for longer than its lease, and has not noticed. `checks` is whether it verifies the lease.
async fn late(server: &PostgresServer, checks: bool) -> bool {
    let (locks, mut client) = (manager(server).await, application(server).await);
    let guard = try_once(&locks, "k").await.expect("it is free");
    let mut transaction = client.transaction().await.expect("a transaction");
    transaction.batch_execute(PAY).await.expect("an insert");
    // As after a stop, the server has granted the key to another process, and this process was not notified.
    server.sql("UPDATE lock_core.holders SET expires_at = '-infinity'");
    let other = manager(server).await;
    let next = try_once(&other, "k").await.expect("the lease is over");
    assert!(guard.is_held(), "as far as it knows");
    if checks {
        let error = guard.verify_in(&mut transaction).await.expect_err("the lease is over");
        assert_eq!(error.kind(), LockErrorKind::Lost, "{error}");
        assert!(!guard.is_held(), "it knows by now");
    }
    // The transaction is aborted, whatever the application does with the error.
    transaction.commit().await.expect("the server ends an aborted transaction with a rollback");
    next.release().await.expect("an answer");
    paid(server)
}

#[tokio::test]
async fn a_late_holder_cannot_commit() {
    let server = PostgresServer::start();
    assert!(!late(&server, true).await, "it was written");
}

/// This is the control.
#[tokio::test]
async fn a_late_holder_that_does_not_check_commits() {
    let server = PostgresServer::start();
    assert!(late(&server, false).await, "nothing kept it from that");
}

/// If a lease has expired by the clock of its holder, the transaction fails too, although no other client has the key.
#[tokio::test]
async fn a_lease_that_is_over_here_fails_the_transaction() {
    let server = PostgresServer::start();
    let (locks, mut client) = (manager(&server).await, application(&server).await);
    let guard = brief(&locks).await;
    let mut transaction = client.transaction().await.expect("a transaction");
    transaction.batch_execute(PAY).await.expect("an insert");
    server.sql("UPDATE lock_core.holders SET expires_at = 'infinity'");
    guard.lost().await;
    let error = guard.verify_in(&mut transaction).await.expect_err("the lease is over");
    assert_eq!(error.kind(), LockErrorKind::Lost, "{error}");
    transaction.commit().await.expect("a rollback");
    assert!(!paid(&server));
}

#[tokio::test]
async fn nobody_else_gets_the_key_before_the_transaction_ends() {
    let server = PostgresServer::start();
    let (locks, other, mut client) =
        (manager(&server).await, manager(&server).await, application(&server).await);
    let guard = brief(&locks).await;
    let mut transaction = client.transaction().await.expect("a transaction");
    guard.verify_in(&mut transaction).await.expect("the lease lives");
    transaction.batch_execute(PAY).await.expect("an insert");
    guard.lost().await;
    tokio::time::sleep(ms(400)).await;
    for _ in 0..3 {
        // If this statement waited for the transaction, it would end with another error.
        let error = try_once(&other, "k").await.expect_err("the transaction may still be committed");
        assert_eq!(error.kind(), LockErrorKind::Contended, "{error}");
    }
    let waiting =
        tokio::spawn(async move { other.lock("k").ttl(LONG).strategy(strategy::wait()).acquire().await });
    wait_until("it waits", PATIENCE, async || server.sql("SELECT count(*) FROM lock_core.waiters") == "1")
        .await;
    transaction.commit().await.expect("a commit");
    let next = within(SOON, "the next holder", waiting).await.expect("no panic").expect("it is free now");
    assert!(next.is_held());
    assert!(paid(&server));
}

#[tokio::test]
async fn renewals_and_the_release_do_not_wait_for_the_transaction() {
    let server = PostgresServer::start();
    let (locks, other, mut client) =
        (manager(&server).await, manager(&server).await, application(&server).await);
    let guard = locks.lock("k").ttl(ms(2_000)).acquire().await.expect("it is free");
    let mut transaction = client.transaction().await.expect("a transaction");
    guard.verify_in(&mut transaction).await.expect("the lease lives");
    tokio::time::sleep(ms(5_000)).await;
    assert!(guard.is_held(), "it is renewed");
    assert_eq!(within(SOON, "the release", guard.release()).await.expect("an answer"), Released::Released);
    // The lock is released too early, but the key stays protected until the transaction ends.
    let error = try_once(&other, "k").await.expect_err("the transaction is still open");
    assert_eq!(error.kind(), LockErrorKind::Contended, "{error}");
    transaction.commit().await.expect("a commit");
    try_once(&other, "k").await.expect("it is free").release().await.expect("an answer");
}

#[tokio::test]
async fn the_statement_can_be_run_by_hand() {
    let server = PostgresServer::start();
    let (locks, client) = (manager(&server).await, application(&server).await);
    let guard = locks.all(["a", "b"]).ttl(LONG).acquire().await.expect("they are free");
    let check = guard.lease_check().expect("it is in a database");
    assert_eq!(check.keys(), ["a", "b"]);
    assert!(!format!("{check:?}").contains(check.owner()), "the owner token is a secret");
    let run = async || {
        let (keys, owner) = (check.keys(), check.owner());
        client.query_typed(check.sql(), &[(&keys, Type::TEXT_ARRAY), (&owner, Type::TEXT)]).await
    };
    run().await.expect("the lease lives");
    guard.release().await.expect("an answer");
    let error = run().await.expect_err("the lease is over");
    assert!(format!("{error:?}").contains("the lease of the lock is over"), "{error:?}");
}

#[tokio::test]
async fn a_store_that_is_in_no_database_says_so() {
    let server = PostgresServer::start();
    let (locks, mut client) = (LockManager::in_memory(), application(&server).await);
    let guard = try_once(&locks, "k").await.expect("it is free");
    let mut transaction = client.transaction().await.expect("a transaction");
    for error in [
        guard.verify_in(&mut transaction).await.expect_err("no database"),
        guard.lease_check().expect_err("no database"),
    ] {
        assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("memory store"), "{error}");
    }
}
