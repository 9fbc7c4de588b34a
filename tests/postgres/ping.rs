//! Pings of Postgres. They check the tables, or the session of advisory locks.

use lock_core::LockManager;
use lock_tests::{PATIENCE, PostgresServer, wait_until};

use crate::pings::{refuses, serves, serves_as};
use crate::support::{LONG, connect, ms, try_once};

#[tokio::test]
async fn a_server_that_stands_still_or_dies_refuses_and_one_that_is_back_serves() {
    let mut server = PostgresServer::start();
    let address = server.address().to_string();
    let tables = connect(&server.url()).await;
    let advisory = format!("{}?mode=advisory&session_timeout=2s", server.url_of("postgres"));
    let advisory = LockManager::connect(&advisory).await.expect("the server has advisory locks");
    let both = [tables, advisory];
    for locks in &both {
        let ping = serves(locks).await;
        assert_eq!((ping.servers, ping.serving, ping.is_degraded()), (1, 1, false), "{ping}");
    }
    server.stop();
    for locks in &both {
        refuses(locks, &address).await;
    }
    server.cont();
    for locks in &both {
        serves(locks).await;
    }
    server.crash();
    for locks in &both {
        refuses(locks, &address).await;
    }
    server.restart();
    for locks in &both {
        serves(locks).await;
    }
}

/// A standby answers queries, and would refuse a lock. The test requests no lock, so only the ping follows the
/// failover.
#[tokio::test]
async fn a_server_that_takes_no_writes_refuses() {
    let server = PostgresServer::start();
    let locks = connect(&server.url()).await;
    serves(&locks).await;
    server.sql("ALTER SYSTEM SET default_transaction_read_only = on");
    server.sql("SELECT pg_reload_conf()");
    refuses(&locks, &server.address().to_string()).await;
    server.sql("ALTER SYSTEM RESET default_transaction_read_only");
    server.sql("SELECT pg_reload_conf()");
    serves(&locks).await;
}

#[tokio::test]
async fn missing_notifications_are_a_degradation() {
    let server = PostgresServer::start();
    connect(&server.url()).await.shutdown(ms(100)).await;
    let locks = connect(&format!("{}?listen=127.0.0.1:1", server.url_of("postgres"))).await;
    let held = try_once(&locks, "k").await.expect("free");
    let other = connect(&format!("{}?listen=127.0.0.1:1", server.url_of("postgres"))).await;
    // The first waiter opens the connection that listens.
    other.lock("k").ttl(LONG).wait(ms(500)).acquire().await.expect_err("it is held");
    let ping = serves_as(&other, |ping| ping.is_degraded()).await;
    assert!(ping.to_string().contains("no notifications arrive"), "{ping}");
    held.release().await.expect("an answer");
}

/// With psql, an operator can list the holder of a key and its waiters, and free the key.
#[tokio::test]
async fn the_view_shows_what_psql_can_free() {
    let server = PostgresServer::start();
    let (locks, other) = (connect(&server.url()).await, connect(&server.url()).await);
    // No renewal is due during the test, so only the notification can reach the holder.
    let held = locks.lock("k").ttl(std::time::Duration::from_secs(3600)).acquire().await.expect("free");
    let waiting = tokio::spawn(other.lock("k").ttl(LONG).wait(LONG).acquire());
    let shown =
        async || server.sql("SELECT key, waits, mode FROM lock_core.held ORDER BY waits") == "k|f|x\nk|t|x";
    wait_until("the view has both", PATIENCE, shown).await;
    let dated = "SELECT since > now() - interval '1 hour' FROM lock_core.held WHERE NOT waits";
    assert_eq!(server.sql(dated), "t");
    assert!(
        locks.inspect("k").await.expect("an answer").expect("it is held").holders[0].held_since.is_some()
    );
    let free = "SELECT lock_core.force_release(key, id) FROM lock_core.held WHERE key = 'k' AND NOT waits";
    assert_eq!(server.sql(free), "t");
    waiting.await.expect("no panic").expect("it is free").release().await.expect("an answer");
    assert_eq!(held.lost().await, lock_core::LossReason::Forced);
}
