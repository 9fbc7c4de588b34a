//! A migration while a service runs.

use std::time::Duration;

use lock_core::backend::postgres::migrate;
use lock_tests::{PATIENCE, PostgresServer};

use crate::support::{cycle, manager, within};
use crate::verify::application;

const SOON: Duration = PATIENCE;

/// If the migration locked a table, an open reader would delay it and all later calls.
#[tokio::test]
async fn a_second_migration_locks_no_table() {
    let server = PostgresServer::start();
    let (locks, mut client) = (manager(&server).await, application(&server).await);
    let transaction = client.transaction().await.expect("a transaction");
    for table in ["keys", "holders", "waiters"] {
        transaction.batch_execute(&format!("SELECT FROM lock_core.{table}")).await.expect("rows");
    }
    transaction.batch_execute("INSERT INTO lock_core.keys (key) VALUES ('other')").await.expect("a row");
    within(SOON, "the migration", migrate(&server.url())).await.expect("it waits for nothing");
    cycle(&locks, "k").await;
    transaction.rollback().await.expect("an answer");
}

/// A first migration, or one to a later version, may have to lock a table. It gives up before the calls that wait for
/// it fail.
#[tokio::test]
async fn a_migration_that_has_to_wait_gives_up() {
    let server = PostgresServer::start();
    let (locks, mut client) = (manager(&server).await, application(&server).await);
    server.sql("DROP TRIGGER raise_floor ON lock_core.keys");
    let transaction = client.transaction().await.expect("a transaction");
    transaction.batch_execute("INSERT INTO lock_core.keys (key) VALUES ('other')").await.expect("a row");
    let error = within(SOON, "the migration", migrate(&server.url())).await.expect_err("the table is in use");
    assert!(error.is_temporary(), "{error}");
    cycle(&locks, "k").await;
    transaction.rollback().await.expect("an answer");
    migrate(&server.url()).await.expect("nobody is in its way");
}

#[tokio::test]
async fn the_tables_of_a_later_version_are_left_alone() {
    let server = PostgresServer::start();
    let _locks = manager(&server).await;
    server.sql(
        "UPDATE lock_core.version SET number = 99; CREATE OR REPLACE FUNCTION lock_core.micros(t timestamptz) RETURNS bigint \
         LANGUAGE sql STABLE AS 'SELECT 7::bigint'",
    );
    migrate(&server.url()).await.expect("there is nothing to do");
    assert_eq!(server.sql("SELECT lock_core.micros(now()), (SELECT number FROM lock_core.version)"), "7|99");
}
