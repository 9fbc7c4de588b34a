//! The settings in URLs and requests, and their effect on the server.

use std::time::Duration;

use lock_core::backend::redis::Redis;
use lock_core::{LockManager, LossReason, Released};
use lock_tests::{Bound, Directory, PATIENCE, RedisServer, wait_until};

use crate::support::{LONG, connect, cycle, empty, manager, ms, try_once, within};

#[tokio::test]
async fn a_database_of_its_own_is_another_place() {
    let server = RedisServer::start();
    let (zero, three) = (manager(&server).await, connect(&format!("{}3", server.url())).await);
    let guard = try_once(&zero, "k").await.expect("the key is free");
    let other = try_once(&three, "k").await.expect("the key is free in another database");
    assert!(server.info("db3").contains("keys=1"));
    guard.release().await.expect("an answer");
    assert!(three.lock("k").try_acquire().await.expect("an answer").is_none());
    other.release().await.expect("an answer");
}

#[tokio::test]
async fn a_socket_in_the_file_system_serves_as_well() {
    let directory = Directory::new();
    let socket = directory.path().join("redis.sock");
    let path = socket.to_str().expect("a path of UTF-8");
    let server = RedisServer::builder().config("unixsocket", path).start();
    let (locks, others) = (connect(&format!("unix://{path}")).await, manager(&server).await);
    let guard = try_once(&locks, "k").await.expect("the key is free");
    assert!(others.lock("k").try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("an answer");
    cycle(&others, "k").await;
}

#[tokio::test]
async fn a_password_of_any_characters_is_percent_encoded() {
    let server = RedisServer::builder().password("p").start();
    server.command(&["ACL", "SETUSER", "a:b", "on", ">p@ss/w:rd?%#", "~*", "+@all"]);
    let encoded = server.url_for("a%3Ab", "p%40ss%2Fw%3Ard%3F%25%23");
    cycle(&connect(&encoded).await, "k").await;
}

#[tokio::test]
async fn a_lock_is_kept_for_its_shortest_time_although_its_body_ends() {
    let server = RedisServer::start();
    let (locks, others) = (manager(&server).await, manager(&server).await);
    let min = ms(5_000);
    let since = Bound::new(PATIENCE);
    locks.lock("job").ttl(min / 2).min_hold(min).run(async {}).await.expect("the key is free");
    assert!(since.elapsed() < min, "the caller does not wait for it: {:?}", since.elapsed());
    assert_eq!(locks.held(), 0);
    for locks in [&locks, &others] {
        assert!(locks.lock("job").try_acquire().await.expect("an answer").is_none());
    }
    let guard = others.lock("job").wait(PATIENCE).acquire().await.expect("it ends");
    // The lease of a kept key is counted in whole milliseconds.
    assert!(since.elapsed() + ms(2) >= min, "after {:?}", since.elapsed());
    guard.release().await.expect("an answer");
    empty(&server, PATIENCE).await;
}

/// The time left says nothing about the work under the key, which has ended.
#[tokio::test]
async fn who_finds_a_kept_key_is_told_how_long_it_is_kept() {
    let server = RedisServer::start();
    let (locks, others) = (manager(&server).await, manager(&server).await);
    for (key, ttl, min) in [("long", ms(1_000), LONG), ("short", LONG, ms(10_000))] {
        locks.lock(key).ttl(ttl).min_hold(min).run(async {}).await.expect("the key is free");
        let error = try_once(&others, key).await.expect_err("it is kept");
        let after = error.retry_after().expect("the server knows");
        assert!(after > min / 2 && after <= min, "{key}: {after:?}");
    }
}

#[tokio::test]
async fn a_lock_ends_at_its_longest_time_although_its_body_goes_on() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let request = locks.lock("job").ttl(LONG).max_hold(ms(300));
    let outcome = within(PATIENCE, "a body that hangs", request.run(std::future::pending::<()>()));
    let error = outcome.await.expect_err("it is ended");
    assert_eq!(error.loss_reason(), Some(LossReason::MaxHold));
    // The keys are deleted at the release, and not only at the end of the lease.
    empty(&server, PATIENCE).await;
}

#[tokio::test]
async fn an_extended_lease_is_longer_on_the_server_and_never_shorter() {
    let server = RedisServer::start();
    let guard = manager(&server).await.lock("k").ttl(ms(5_000)).acquire().await.expect("the key is free");
    let left = || server.get::<u64>(&["PTTL", "k"]);
    assert!(left() <= 5_000);
    guard.extend(LONG).await.expect("the lock is held");
    assert!(left() > 50_000 && guard.remaining() > Duration::from_secs(50));
    guard.extend(ms(100)).await.expect("the lock is held");
    assert!(left() > 50_000 && guard.remaining() > Duration::from_secs(50));
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

#[tokio::test]
async fn nothing_is_stored_without_an_expiry() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let fenced = locks.lock("fenced").fencing(true).acquire().await.expect("the key is free");
    let asked = locks.lock("asked").acquire().await.expect("the key is free");
    asked.fencing_token().await.expect("the lock is held");
    locks.lock("kept").min_hold(LONG).run(async {}).await.expect("the key is free");
    wait_until("all five are there", PATIENCE, async || server.keys().len() == 5).await;
    for key in server.keys() {
        assert!(server.get::<i64>(&["PTTL", &key]) > 0, "{key}");
    }
    // Both locks are still held, so their keys still exist.
    assert!(fenced.is_held() && asked.is_held());
}

/// The client leads to the same user, password and database.
#[tokio::test]
async fn a_client_of_the_application_leads_to_the_same_locks() {
    let server = RedisServer::builder().password("secret").start();
    let url = format!("{}2", server.url());
    let client = redis::Client::open(url.as_str()).expect("a URL");
    let theirs = Redis::from_client(&client).await.expect("the server takes locks");
    let theirs = LockManager::builder(theirs).build().expect("a manager");
    let ours = LockManager::connect(&url).await.expect("the server takes locks");
    let guard = theirs.lock("k").try_acquire().await.expect("an answer").expect("it is free");
    assert!(ours.lock("k").try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("an answer");
    assert!(ours.lock("k").try_acquire().await.expect("an answer").is_some());

    let wrong = redis::Client::open(server.url().replace("secret", "guess")).expect("a URL");
    let error = Redis::from_client(&wrong).await.expect_err("refused");
    assert!(error.to_string().contains("wrong user or password") && !format!("{error:?}").contains("guess"));
}

/// This works even if the user may not call `CLIENT`.
#[tokio::test]
async fn an_operator_sees_whose_connections_they_are() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "default", "-client"]);
    for (option, name) in [("", "lock-core"), ("?client_name=shop", "shop")] {
        let locks = LockManager::connect(&format!("{}{option}", server.url())).await.expect("it serves");
        server.command(&["ACL", "SETUSER", "default", "+client"]);
        let clients: String = server.get(&["CLIENT", "LIST"]);
        let shown = format!(" name={name} ");
        assert_eq!(clients.lines().filter(|client| client.contains(&shown)).count(), 1, "{clients}");
        server.command(&["ACL", "SETUSER", "default", "-client"]);
        locks.shutdown(PATIENCE).await;
    }
}
