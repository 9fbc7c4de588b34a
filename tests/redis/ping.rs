//! Pings of one server.

use lock_core::{LockErrorKind, LockManager};
use lock_tests::{PATIENCE, RedisServer};

use crate::pings::{refuses, serves, serves_as};
use crate::support::{connect, manager, ms};

#[tokio::test]
async fn a_server_that_stands_still_or_dies_refuses_and_one_that_is_back_serves() {
    let mut server = RedisServer::start();
    let (locks, address) = (manager(&server).await, format!("127.0.0.1:{}", server.port()));
    let ping = serves(&locks).await;
    assert_eq!((ping.servers, ping.serving, ping.is_degraded()), (1, 1, false), "{ping}");
    assert!(!ping.round_trip.is_zero() && ping.round_trip < PATIENCE, "{ping}");
    server.stop();
    refuses(&locks, &address).await;
    server.cont();
    serves(&locks).await;
    server.kill9();
    refuses(&locks, &address).await;
    server.restart();
    serves(&locks).await;
    locks.shutdown(ms(100)).await;
    assert_eq!(locks.ping().await.expect_err("it is closed").kind(), LockErrorKind::ShuttingDown);
}

/// Each of these servers answers PING, but would refuse a lock.
#[tokio::test]
async fn a_server_that_takes_no_writes_refuses() {
    let (server, primary) = (RedisServer::start(), RedisServer::start());
    let locks = manager(&server).await;
    let port = primary.port().to_string();
    for (breaks, mends, said) in [
        (
            ["CONFIG", "SET", "min-replicas-to-write", "1"],
            ["CONFIG", "SET", "min-replicas-to-write", "0"],
            "replicas",
        ),
        (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"], "out of memory"),
    ] {
        serves(&locks).await;
        server.command(&breaks);
        let error = refuses(&locks, &server.port().to_string()).await;
        assert!(error.to_string().contains(said), "{error}");
        server.command(&mends);
    }
    serves(&locks).await;
    server.command(&["REPLICAOF", "127.0.0.1", &port]);
    refuses(&locks, &server.port().to_string()).await;
    server.command(&["REPLICAOF", "NO", "ONE"]);
    // The ping has made the manager connect again.
    serves(&locks).await;
}

#[tokio::test]
async fn a_ping_changes_nothing_and_needs_no_right_to_its_key() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    serves(&locks).await;
    assert!(server.keys().is_empty());
    server.command(&["SET", "lock:rights", "some text"]);
    serves(&locks).await;
    assert_eq!(server.get::<String>(&["GET", "lock:rights"]), "some text");
    server.command(&[
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">secret",
        "~shop:*",
        "~{shop:*",
        "&lock:wake:*",
        "+@all",
    ]);
    let app = connect(&server.url_for("app", "secret")).await;
    let ping = serves_as(&app, |ping| ping.is_degraded()).await;
    assert!(ping.to_string().contains("give the user the key `lock:rights`"), "{ping}");
    server.command(&["DEL", "lock:rights"]);
    server.command(&["RPUSH", "lock:rights", "an element"]);
    serves(&locks).await;
    server.command(&["ACL", "SETUSER", "app", "-setrange"]);
    let error = app.ping().await.expect_err("a right is missing");
    assert!(error.to_string().contains("to run the 'setrange' command") && !error.is_temporary(), "{error}");
}

/// A ping that is dropped at any point leaves nothing behind.
#[tokio::test]
async fn a_ping_may_be_dropped() {
    let server = RedisServer::start();
    let locks: LockManager = manager(&server).await;
    for _ in 0..50 {
        let _ = tokio::time::timeout(std::time::Duration::ZERO, locks.ping()).await;
    }
    serves(&locks).await;
    assert!(server.keys().is_empty());
}
