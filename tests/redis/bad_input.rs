//! Unreachable servers and wrong credentials. The error is clear, arrives in time, and never shows the password.

use std::time::Duration;

use lock_core::backend::redis::Redis;
use lock_core::backend::{Ask, Backend, FencingToken, LatchStep, Mode, Queue, Renewal};
use lock_core::key::Key;
use lock_core::testkit::names;
use lock_core::{LockError, LockErrorKind, LockManager, ManagerBuilder};
use lock_tests::{Bound, Flow, PATIENCE, Proxy, RedisServer, Replica, wait_until};

use crate::store::{Process, Told};
use crate::support::{connect, cycle, manager, ms, try_once, within, works_again};

const SECRET: &str = "s3cret-of-the-test";

/// Returns the error of a failed connect.
async fn refused(url: &str) -> LockError {
    let connecting = within(PATIENCE, "connecting in vain", LockManager::connect(url)).await;
    let error = connecting.expect_err("it cannot be had");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    no_secret(&error);
    error
}

/// Returns the error of a connect that was not retried, because a retry cannot help.
async fn refused_at_once(url: &str) -> LockError {
    let error = refused(url).await;
    assert!(!error.to_string().contains("tried"), "{error}");
    error
}

fn no_secret(error: &LockError) {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(" {cause} {cause:?}"));
        source = cause.source();
    }
    assert!(!text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_tried_until_the_time_to_connect_is_over() {
    let mut server = RedisServer::builder().password(SECRET).start();
    server.kill9();
    let error = refused(&format!("{}?connect_timeout=500ms", server.url())).await;
    assert!(error.is_temporary());
    let text = error.to_string();
    assert!(text.contains(&server.port().to_string()), "says where: {error}");
    assert!(text.contains("is the server up?") && text.contains("times within 500ms"), "{error}");
    // If a server starts meanwhile, the connect succeeds.
    let connecting = tokio::spawn({
        let url = server.url();
        async move { LockManager::connect(&url).await }
    });
    tokio::time::sleep(ms(1_500)).await;
    assert!(!connecting.is_finished(), "it still tries");
    server.restart();
    let locks = connecting.await.expect("no panic").expect("the server has started");
    cycle(&locks, "k").await;
}

/// A server that has just started, or has only a fraction of a core, accepts connections before it answers.
#[tokio::test]
async fn a_server_that_greets_late_is_waited_for() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let url = proxy.url();
    let connecting = async move { LockManager::connect(&url).await };
    let locks = Proxy::greeting_late(std::slice::from_ref(&proxy), ms(3_000), connecting).await;
    let locks = locks.expect("the server has answered");
    cycle(&locks, "k").await;
    // In a running manager, no call waits longer than its own limit.
    proxy.replies(Flow::Hold);
    proxy.cut();
    within(PATIENCE, "an answer", async {
        let error = try_once(&locks, "k").await.expect_err("the server is silent");
        assert!(error.is_temporary(), "{error}");
    })
    .await;
    proxy.heal();
    works_again(&locks, "k").await;
}

/// A running manager reaches a server that has become slow. If a connection attempt times out, the next one gets more
/// time.
#[tokio::test]
async fn a_server_that_becomes_slow_is_reached_again() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let locks = connect(&format!("{}?timeout=10s", proxy.url())).await;
    cycle(&locks, "k").await;
    // Each connection attempt takes three round trips.
    proxy.delay(ms(300));
    proxy.cut();
    works_again(&locks, "k").await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_unavailable_after_the_time_to_connect() {
    // Connections stay in the backlog of this listener for ever.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let url = format!("redis://:{SECRET}@127.0.0.1:{port}/");
    let (started, error) = (Bound::new(PATIENCE), refused(&format!("{url}?connect_timeout=700ms")).await);
    assert!(started.elapsed() >= ms(700), "it waits for as long as the URL says: {:?}", started.elapsed());
    assert!(error.is_temporary() && error.to_string().contains("no greeting within 700ms"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_told_at_once_and_not_shown() {
    let server = RedisServer::builder().password(SECRET).start();
    let port = server.port();
    let table = [
        (format!("redis://:{SECRET}-not@127.0.0.1:{port}/"), "wrong user or password"),
        (format!("redis://nobody:{SECRET}@127.0.0.1:{port}/"), "wrong user or password"),
        (format!("redis://127.0.0.1:{port}/"), "wants a password"),
    ];
    for (url, expected) in table {
        let error = refused_at_once(&url).await;
        assert!(!error.is_temporary(), "trying again does not help: {error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn credentials_that_are_taken_away_are_told_and_can_be_given_back() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "app", "on", &format!(">{SECRET}"), "~*", "+@all"]);
    let locks = connect(&server.url_for("app", SECRET)).await;
    cycle(&locks, "k").await;
    // Redis closes the connections of a deleted user.
    server.command(&["ACL", "DELUSER", "app"]);
    wait_until("the error is told", PATIENCE, async || match try_once(&locks, "k").await {
        Ok(_) => panic!("locked without a user"),
        Err(error) => {
            no_secret(&error);
            assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
            !error.is_temporary()
        }
    })
    .await;
    server.command(&["ACL", "SETUSER", "app", "on", &format!(">{SECRET}"), "~*", "+@all"]);
    works_again(&locks, "k").await;
}

#[tokio::test]
async fn what_is_no_redis_server_is_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await;
            // Closing a socket with unread bytes would send a reset, which can overtake the answer.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
    });
    let error = refused_at_once(&format!("redis://:{SECRET}@127.0.0.1:{port}/")).await;
    assert!(error.to_string().contains("Redis protocol"), "{error}");
    serving.abort();
}

#[tokio::test]
async fn a_node_of_a_cluster_is_not_supported() {
    let server = RedisServer::builder().config("cluster-enabled", "yes").start();
    let error = LockManager::connect(&server.url()).await.expect_err("it is no single server");
    assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("Cluster") && !error.is_temporary(), "{error}");
}

#[tokio::test]
async fn nothing_that_can_be_printed_shows_the_password() {
    let server = RedisServer::builder().password(SECRET).start();
    let redis = Redis::connect(&server.url()).await.expect("the server takes locks");
    let builder = ManagerBuilder::connect(&server.url()).await.expect("the server takes locks");
    let mut shown = format!("{redis:?} {redis:#?} {builder:?} {builder:#?}");
    let locks = builder.build().expect("good defaults");
    let guard = try_once(&locks, "k").await.expect("the key is free");
    shown.push_str(&format!("{locks:?} {locks:#?} {guard:?} {:?} {:?}", guard.handle(), locks.lock("k")));
    assert!(!shown.contains(SECRET), "{shown}");
    let token: String = server.get(&["GETRANGE", "k", "0", "47"]);
    assert!(!shown.contains(&token), "the owner's token is a secret too: {shown}");
    guard.release().await.expect("an answer");
}

#[tokio::test]
async fn the_documented_permissions_are_enough_and_fewer_are_an_error() {
    let server = RedisServer::start();
    let allow = |extra: &[&str]| {
        let user = ["ACL", "SETUSER", "app", "reset", "on", &format!(">{SECRET}"), "~shop:*", "~{shop:*"];
        let needed = [
            // Before Redis 7 a new user may use all channels, and such a user cannot get a further channel.
            "resetchannels",
            "&lock:wake:*",
            "+hello",
            "+select",
            "+info",
            "+script|load",
            "+time",
            "+get",
            "+getrange",
            "+setrange",
            "+exists",
            "+pttl",
            "+pexpire",
            "+del",
            "+hget",
            "+hset",
            "+hdel",
            "+hexists",
            "+hlen",
            "+hgetall",
            "+zadd",
            "+zrem",
            "+zremrangebyscore",
            "+zscore",
            "+zcard",
            "+zrank",
            "+zrange",
            "+zrevrange",
            "+subscribe",
            "+publish",
        ];
        server.command(&[&user, &needed[..], extra].concat());
    };
    let url = server.url_for("app", SECRET);
    allow(&["+evalsha", "+set"]);
    let builder = ManagerBuilder::connect(&url).await.expect("the server takes locks");
    let locks = builder.namespace("shop").build().expect("good defaults");
    let guard = locks.lock("k").fencing(true).ttl(ms(600)).acquire().await.expect("the key is free");
    assert!(locks.lock("k").try_acquire().await.expect("an answer").is_none());
    tokio::time::sleep(ms(1_200)).await;
    guard.check().expect("it is renewed");
    guard.release().await.expect("an answer");
    cycle(&locks, "k").await;
    every_step(&Process::at(&url).await).await;
    allow(&["+evalsha", "+set", "-publish"]);
    let process = Process::at(&url).await;
    let (holder, waiter) = (process.fifo("shop:k"), process.fifo("shop:k"));
    process.take(&holder).await;
    process.wait(&waiter).await;
    process.release(&holder).await;
    process.served(&waiter).await;
    process.release(&waiter).await;
    allow(&["+evalsha", "+set", "resetchannels"]);
    let process = Process::at(&url).await;
    denied(
        &process
            .redis
            .acquire(&process.fifo("shop:k"), Ask::Enqueue { room: None })
            .await
            .expect_err("no permission to listen"),
    );
    allow(&["+evalsha", "+set"]);

    // The first key does not match the user's pattern. Then a permission is revoked during the connection.
    let error = try_once(&connect(&url).await, "other").await.expect_err("no permission for the key");
    denied(&error);
    allow(&["+evalsha"]);
    denied(&try_once(&locks, "k").await.expect_err("no permission for SET"));
    allow(&["+set"]);
    let fenced = locks.lock("k").fencing(true).acquire().await;
    denied(&fenced.expect_err("no permission for EVALSHA"));
    server.command(&["ACL", "SETUSER", "app", "-script"]);
    assert!(!refused_at_once(&url).await.is_temporary());
}

/// Runs every script, on every path that uses a different command.
async fn every_step(process: &Process) {
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 2 }] {
        let claims: Vec<_> = (0..4).map(|_| process.claim("shop:q", mode, Queue::Fifo)).collect();
        for claim in &claims {
            let _ = process.redis.acquire(claim, Ask::Enqueue { room: None }).await.expect("permitted");
        }
        for claim in &claims {
            let _ = process.heartbeat(claim).await;
            let _ = process.renew(claim, ms(500)).await;
        }
        process.redis.fence(&claims[0]).await.expect("permitted");
        for claim in &claims {
            process.release(claim).await;
        }
        let (mut dead, next) =
            (process.claim("shop:d", mode, Queue::Fifo), process.claim("shop:d", mode, Queue::Fifo));
        // Half of the ttl is the deadline of the request.
        dead.ttl = ms(400);
        process.take(&dead).await;
        tokio::time::sleep(ms(420)).await;
        process.take(&next).await;
        process.release(&next).await;
    }
    let (writer, mut waiter) = (process.fifo("shop:w"), process.claim("shop:w", Mode::Shared, Queue::Fifo));
    process.take(&writer).await;
    process.wait(&waiter).await;
    assert!(matches!(process.redis.downgrade(&writer).await, Renewal::Renewed { .. }));
    process.is_told(&Told::Granted(waiter.owner, 0)).await;
    waiter.number_fence(FencingToken::new(7));
    process.redis.release(&waiter, Some(ms(20))).await.expect("permitted");
    waiter.key = Key::new("shop:l").expect("a key");
    let ttl = ms(500);
    for step in [
        LatchStep::Set { count: 1, owner: waiter.owner, ttl },
        LatchStep::Wait { process: process.number(), ttl },
        LatchStep::CountDown { owner: waiter.owner, ttl },
        LatchStep::Look,
    ] {
        process.redis.latch(&waiter.key, &step).await.expect("permitted");
    }
    process.is_told(&Told::Opened("shop:l".to_owned())).await;
}

fn denied(error: &LockError) {
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    assert!(!error.is_temporary() && error.to_string().contains("NOPERM"), "{error}");
    no_secret(error);
}

#[tokio::test]
async fn a_replica_is_refused_and_says_why() {
    let primary = RedisServer::start();
    let replica = Replica::of(&primary);
    let error = refused_at_once(&replica.server().url()).await;
    assert!(!error.is_temporary() && error.to_string().contains("replica"), "{error}");
    replica.promote();
    cycle(&manager(replica.server()).await, "k").await;
}

/// A name may resolve to the primary, its replicas, and servers that have ended. The port of the URL does not matter
/// here.
#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    let primary = RedisServer::start();
    let replica = Replica::of(&primary);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("an address");
    let nobody = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let at = |server: &RedisServer| std::net::SocketAddr::from(([127, 0, 0, 1], server.port()));
    let (first, last) = (at(replica.server()), at(&primary));
    for others in [vec![first], vec![silent], vec![nobody], vec![nobody, silent, first]] {
        let addresses: Vec<_> = others.iter().copied().chain([last]).collect();
        names::lead("several.test", &addresses);
        cycle(&connect("redis://several.test/").await, "k").await;
    }
    // Any of several servers may become the primary.
    names::lead("replicas.test", &[first, nobody]);
    let error = refused("redis://replicas.test/?connect_timeout=500ms").await;
    assert!(error.is_temporary(), "{error}");
    let connecting = tokio::spawn(async { LockManager::connect("redis://replicas.test/").await });
    tokio::time::sleep(ms(300)).await;
    replica.promote();
    cycle(&connecting.await.expect("no panic").expect("it was promoted"), "k").await;
}

#[tokio::test]
async fn a_primary_that_is_demoted_refuses_until_it_is_one_again() {
    let (other, server) = (RedisServer::start(), RedisServer::start());
    let locks = manager(&server).await;
    cycle(&locks, "k").await;
    server.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    for _ in 0..3 {
        let error = try_once(&locks, "k").await.expect_err("a replica takes no locks");
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        assert!(error.is_temporary(), "it may be promoted again: {error}");
    }
    wait_until("it is linked", PATIENCE, async || server.info("master_link_status") == "up").await;
    server.command(&["REPLICAOF", "NO", "ONE"]);
    works_again(&locks, "k").await;
}

#[tokio::test]
async fn the_longest_lease_is_kept_and_a_longer_one_refused() {
    let server = RedisServer::start();
    let redis = Redis::connect(&server.url()).await.expect("the server takes locks");
    let capability = redis.capability();
    let locks = manager(&server).await;
    let guard = locks.lock("k").ttl(capability.max_ttl).acquire().await.expect("the server can");
    let left: u64 = server.get(&["PTTL", "k"]);
    assert!(u128::from(left) > capability.max_ttl.as_millis() - 60_000, "{left}");
    guard.release().await.expect("an answer");
    let brief = locks.lock("k").ttl(capability.min_ttl).renew(false).acquire().await.expect("the server can");
    drop(brief);
    for ttl in [Duration::ZERO, capability.min_ttl / 2, capability.max_ttl + ms(1), Duration::MAX] {
        let error = locks.lock("k").ttl(ttl).acquire().await.expect_err("out of bounds");
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    }
}

#[tokio::test]
async fn strange_keys_are_stored_and_freed_like_others() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let long = "k".repeat(100_000);
    for key in ["a b\r\n\0*3", "{tag}:xy", "%41", "ключ", "..", "*", "k:f", long.as_str()] {
        let guard = try_once(&locks, key).await.expect("a key is a key");
        assert_eq!(server.keys().len(), 1, "{key:.20}");
        assert!(locks.lock(key).try_acquire().await.expect("an answer").is_none());
        guard.release().await.expect("an answer");
        assert!(server.keys().is_empty(), "{key:.20}");
    }
    for key in ["", "{k}:f"] {
        let error = try_once(&locks, key).await.expect_err("no key for a lock");
        assert_eq!(error.kind(), LockErrorKind::InvalidKey, "{key}");
    }
}
