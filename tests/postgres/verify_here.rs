//! A lease that a transaction has verified, and the other tasks of its own process.

use std::time::Duration;

use lock_core::backend::postgres::tokio_postgres::{Client, IsolationLevel, types::Type};
use lock_core::{LockErrorKind, LockManager, strategy};
use lock_tests::{PATIENCE, PostgresServer, wait_until};

use crate::support::{LONG, manager, ms, try_once, within};
use crate::verify::application;

const SOON: Duration = PATIENCE;

async fn both(server: &PostgresServer) -> (LockManager, Client) {
    (manager(server).await, application(server).await)
}

/// Without the check, the grant would be handed off inside the process, and the waiter would have the key at once.
#[tokio::test]
async fn a_verified_lease_is_not_handed_off_inside_the_process() {
    let server = PostgresServer::start();
    let (locks, mut client) = both(&server).await;
    for verified in [true, false] {
        let guard = try_once(&locks, "k").await.expect("it is free");
        let mut transaction = client.transaction().await.expect("a transaction");
        if verified {
            guard.verify_in(&mut transaction).await.expect("the lease lives");
        }
        let other = locks.clone();
        let mut waiting =
            tokio::spawn(async move { other.lock("k").ttl(LONG).strategy(strategy::wait()).acquire().await });
        tokio::time::sleep(ms(200)).await;
        drop(guard);
        if verified {
            let early = tokio::time::timeout(ms(1_000), &mut waiting).await;
            assert!(early.is_err(), "the transaction keeps the key");
            transaction.commit().await.expect("a commit");
        }
        let next = within(SOON, "the waiter", waiting).await;
        next.expect("no panic").expect("its turn").release().await.expect("an answer");
    }
}

#[tokio::test]
async fn a_verified_lease_does_not_linger() {
    let server = PostgresServer::start();
    let (locks, mut client) = both(&server).await;
    let lingering =
        async || locks.lock("k").ttl(LONG).linger(ms(1_000)).strategy(strategy::fail_fast()).acquire().await;
    // On a busy machine the connection for notifications may be late, and without it no lock lingers.
    wait_until("a lock may linger", PATIENCE, async || match lingering().await {
        Ok(guard) => guard.release().await.is_ok(),
        Err(_) => false,
    })
    .await;
    let guard = lingering().await.expect("it lingers");
    // The statement for another driver has the same effect as the call.
    let check = guard.lease_check().expect("it is in a database");
    let mut transaction = client.transaction().await.expect("a transaction");
    guard.verify_in(&mut transaction).await.expect("the lease lives");
    guard.release().await.expect("an answer");
    let error = lingering().await.expect_err("the transaction is open");
    assert_eq!(error.kind(), LockErrorKind::Contended, "{error}");
    transaction.commit().await.expect("a commit");
    let next = lingering().await.expect("it is free");
    assert_ne!(
        next.lease_check().expect("a check").owner(),
        check.owner(),
        "an old check is none of the new lease"
    );
    let (keys, owner) = (check.keys(), check.owner());
    let old = client.query_typed(check.sql(), &[(&keys, Type::TEXT_ARRAY), (&owner, Type::TEXT)]).await;
    assert!(old.is_err(), "the old check passes although the next lease holds the key");
    next.release().await.expect("an answer");
}

/// The snapshot of such a transaction may be older than the grant. The lease is valid nevertheless.
#[tokio::test]
async fn an_old_snapshot_loses_no_lock() {
    let server = PostgresServer::start();
    let (locks, mut client) = both(&server).await;
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let started = client.build_transaction().isolation_level(level).start().await;
        let mut transaction = started.expect("a transaction");
        transaction.batch_execute("SELECT FROM orders").await.expect("rows");
        let guard = try_once(&locks, "k").await.expect("it is free");
        let error = guard.verify_in(&mut transaction).await.expect_err("the snapshot is older");
        assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
        assert!(error.is_temporary() && guard.is_held(), "{error}");
        transaction.rollback().await.expect("an answer");
        let started = client.build_transaction().isolation_level(level).start().await;
        let mut again = started.expect("a transaction");
        guard.verify_in(&mut again).await.expect("the lease lives");
        again.commit().await.expect("a commit");
        guard.release().await.expect("an answer");
    }
}
