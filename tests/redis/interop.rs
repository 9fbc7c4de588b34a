//! Services in other languages that use the documented pattern for the same key.

use std::time::Duration;

use lock_core::{LockErrorKind, ManagerBuilder, Released};
use lock_tests::{Bound, PATIENCE, RedisServer, Warnings, wait_until};
use redis::Value;

use crate::support::{calls, manager, ms, try_once};

/// The release from the Redis documentation.
const COMPARE_AND_DELETE: &str = r#"
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
else
    return 0
end"#;

/// Acquires as in the Redis documentation.
fn foreign_take(server: &RedisServer, key: &str, value: &str) -> bool {
    match server.command(&["SET", key, value, "NX", "PX", "60000"]) {
        Value::Okay => true,
        Value::Nil => false,
        other => panic!("SET answered {other:?}"),
    }
}

fn foreign_free(server: &RedisServer, key: &str, value: &str) -> bool {
    server.get::<i64>(&["EVAL", COMPARE_AND_DELETE, "1", key, value]) == 1
}

#[tokio::test]
async fn a_foreign_holder_excludes_ours_until_it_frees_the_key() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    assert!(foreign_take(&server, "job", "6f7c0e7a"));
    let error = try_once(&locks, "job").await.expect_err("it is held");
    assert_eq!(error.kind(), LockErrorKind::Contended);
    assert!(error.holder().is_none(), "a foreign value names nobody: {error}");
    let left = error.retry_after().expect("the rest of the lease");
    assert!(left > Duration::from_secs(50) && left <= Duration::from_secs(60), "{left:?}");
    // The refused attempt did not change the key.
    assert_eq!(server.get::<String>(&["GET", "job"]), "6f7c0e7a");
    assert!(foreign_free(&server, "job", "6f7c0e7a"));
    try_once(&locks, "job").await.expect("it is free").release().await.expect("an answer");
}

#[tokio::test]
async fn a_foreign_lock_without_an_expiry_is_waited_for() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    server.command(&["SET", "job", "6f7c0e7a"]);
    let error = try_once(&locks, "job").await.expect_err("it is held");
    assert_eq!((error.kind(), error.retry_after()), (LockErrorKind::Contended, None));
    let waiting = tokio::spawn(locks.lock("job").wait(PATIENCE).acquire());
    wait_until("it is asked for again", PATIENCE, async || calls(&server, "evalsha") > 2).await;
    assert!(foreign_free(&server, "job", "6f7c0e7a"));
    waiting.await.expect("no panic").expect("it is free").release().await.expect("an answer");
}

/// The other library's holder sends no notification, so the first waiter polls as often as clients of other libraries
/// do. The later waiters poll as rarely as usual.
#[tokio::test]
async fn the_first_waiter_behind_a_foreign_lock_asks_often() {
    const HEARTBEATS: u64 = 40;
    let server = RedisServer::start();
    for fair in [false, true] {
        assert!(foreign_take(&server, "job", "6f7c0e7a"));
        let managers = [manager(&server).await, manager(&server).await, manager(&server).await];
        let mut waiting = Vec::new();
        for locks in &managers {
            let request = if fair { locks.fair("job") } else { locks.lock("job") };
            let request = request.wait(PATIENCE);
            waiting.push(tokio::spawn(async move { request.acquire().await?.release().await }));
        }
        wait_until("all wait", PATIENCE, async || server.get::<usize>(&["ZCARD", "{job}:q"]) == 3).await;
        let (before, started) = (calls(&server, "evalsha"), Bound::new(PATIENCE));
        wait_until("they ask", PATIENCE, async || calls(&server, "evalsha") > before + HEARTBEATS).await;
        // The regular heartbeats of three waiters are 4.5 a second. The first waiter adds at most 20 requests. If all
        // three polled, they would add at least 30.
        let took = started.elapsed();
        assert!(took < Duration::from_secs(7), "{HEARTBEATS} heartbeats in {took:?}");
        assert!(took > ms(1_500), "all of them ask often: {HEARTBEATS} heartbeats in {took:?}");
        assert!(foreign_free(&server, "job", "6f7c0e7a"));
        for waiter in waiting {
            waiter.await.expect("no panic").expect("it is free");
        }
    }
}

#[tokio::test]
async fn a_wait_behind_a_value_without_an_expiry_is_warned_of_once() {
    Warnings::listen();
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let key = format!("for ever {}", server.port());
    server.command(&["SET", &key, "6f7c0e7a"]);
    let wait = || {
        let request = locks.fair(&key).wait(PATIENCE);
        tokio::spawn(async move { request.acquire().await?.release().await })
    };
    let waiting: Vec<_> = (0..3).map(|_| wait()).collect();
    wait_until("it is told", PATIENCE, async || !Warnings::with(&key).is_empty()).await;
    let told = Warnings::with(&key);
    assert!(told.len() == 1 && told[0].contains("without an expiry"), "{told:?}");
    server.command(&["DEL", &key]);
    for waiter in waiting {
        waiter.await.expect("no panic").expect("it is free");
    }
}

#[tokio::test]
async fn ours_excludes_a_foreign_one_that_cannot_free_it() {
    let server = RedisServer::start();
    let guard = try_once(&manager(&server).await, "job").await.expect("it is free");
    assert!(!foreign_take(&server, "job", "6f7c0e7a"));
    assert!(!foreign_free(&server, "job", "6f7c0e7a"));
    assert!(guard.is_held());
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    assert!(foreign_take(&server, "job", "6f7c0e7a"));
}

#[tokio::test]
async fn a_release_leaves_a_foreign_successor_alone() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let guard = try_once(&locks, "job").await.expect("it is free");
    let dropped = try_once(&locks, "other job").await.expect("it is free");
    server.command(&["DEL", "job", "other job"]);
    assert!(foreign_take(&server, "job", "6f7c0e7a") && foreign_take(&server, "other job", "6f7c0e7a"));
    assert_eq!(guard.release().await.expect("an answer"), Released::Taken);
    drop(dropped);
    // The shutdown waits for the release of the dropped guard.
    locks.shutdown(Duration::from_secs(5)).await;
    assert_eq!(server.keys(), ["job", "other job"]);
}

#[tokio::test]
async fn a_renewal_leaves_a_foreign_successor_alone() {
    let server = RedisServer::start();
    let guard = try_once(&manager(&server).await, "job").await.expect("it is free");
    server.command(&["SET", "job", "6f7c0e7a", "PX", "5000"]);
    let error = guard.extend(Duration::from_secs(600)).await.expect_err("it is not ours any more");
    assert_eq!(error.kind(), LockErrorKind::Lost);
    assert!(server.get::<i64>(&["PTTL", "job"]) <= 5_000);
}

#[tokio::test]
async fn an_operator_can_read_who_holds() {
    let server = RedisServer::start();
    let builder = ManagerBuilder::connect(&server.url()).await.expect("the server takes locks");
    let locks = builder.namespace("shop").service("checkout").build().expect("a good namespace");
    let guard = locks.lock("order:42").label("pay now").acquire().await.expect("it is free");
    assert_eq!(server.keys(), ["shop:order:42"]);

    let value: String = server.get(&["GET", "shop:order:42"]);
    let (token, record) = value.split_once(' ').expect("a token and a record");
    assert!(token.len() == 48 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    let pid = format!("pid={}", std::process::id());
    for part in ["host=", pid.as_str(), "service=checkout", "label=pay%20now", "since="] {
        assert!(record.split(' ').any(|word| word.starts_with(part)), "no {part} in {record}");
    }
    let left: i64 = server.get(&["PTTL", "shop:order:42"]);
    assert!((1..=10_000).contains(&left), "{left}");

    let error = locks.lock("order:42").try_acquire().await.expect("an answer");
    assert!(error.is_none());
    let error = try_once(&locks, "order:42").await.expect_err("it is held");
    let holder = error.holder().expect("the record");
    assert_eq!((holder.identity().pid(), holder.identity().service()), (std::process::id(), "checkout"));
    assert_eq!(holder.label(), Some("pay now"));
    assert!(!error.to_string().contains(token) && !format!("{error:?}").contains(token), "{error:?}");
    guard.release().await.expect("an answer");
}
