//! The owners of a process. After a new connection, no owner is one that a copy of the process could have created
//! before.

use lock_tests::{PATIENCE, RedisServer, wait_until};

use crate::support::{manager, try_once, works_again};

/// Returns the counter in the token of the owner of a key.
async fn counter(server: &RedisServer, locks: &lock_core::LockManager, key: &str) -> u64 {
    let guard = try_once(locks, key).await.expect("it is free");
    let digits: String = server.get(&["GETRANGE", key, "33", "47"]);
    guard.release().await.expect("an answer");
    u64::from_str_radix(&digits, 16).expect("hexadecimal digits")
}

#[tokio::test]
async fn owners_leap_with_each_dial() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let first = counter(&server, &locks, "a").await;
    let next = counter(&server, &locks, "b").await;
    assert!(next - first < 100, "{first}, {next}");
    let connections = server.cut_clients();
    assert!(connections > 0);
    wait_until("it is dialled again", PATIENCE, async || try_once(&locks, "c").await.is_ok()).await;
    works_again(&locks, "d").await;
    let after = counter(&server, &locks, "e").await;
    // One in a million connection attempts increases the counter by less.
    assert!(after - next > 1_000_000, "{next}, {after}");
}
