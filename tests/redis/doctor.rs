//! The findings of `doctor` on one server. Each test causes a real fault, and checks that the finding disappears after
//! the repair.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use lock_core::Severity::{Danger, Note, Warning};
use lock_core::{LockManager, Severity};
use lock_tests::{Clock, PATIENCE, RedisServer, Replica, wait_until};

use crate::findings::{found_as, gone, rules};
use crate::support::{connect, manager};

fn set(server: &RedisServer, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        server.command(&["CONFIG", "SET", name, value]);
    }
}

#[tokio::test]
async fn a_plain_server_forgets_at_a_restart_and_one_with_a_log_has_no_findings() {
    let plain = RedisServer::start();
    assert_eq!(rules(&manager(&plain).await).await, [("redis.persistence", Warning)]);
    let durable = RedisServer::builder().config("appendonly", "yes").config("appendfsync", "always").start();
    let locks = manager(&durable).await;
    assert_eq!(locks.doctor().await.expect("an answer"), []);
    set(&durable, &[("appendfsync", "everysec")]);
    assert_eq!(rules(&locks).await, [("redis.fsync", Note)]);
    set(&durable, &[("appendfsync", "no")]);
    assert_eq!(rules(&locks).await, [("redis.fsync", Warning)]);
    set(&durable, &[("appendonly", "no"), ("save", "3600 1")]);
    let finding = found_as(&locks, "redis.persistence", Warning).await;
    assert!(finding.found.contains("save is `3600 1`") && finding.about.is_empty(), "{finding}");
}

#[tokio::test]
async fn each_setting_is_found_and_gone_once_it_is_set_right() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    // This value is large compared with the memory of a connection.
    server.command(&["SETRANGE", "big", "30000000", "x"]);
    let used: u64 = server.info("used_memory").trim().parse().expect("a number");
    let nearly = (used * 100 / 95).to_string();
    let table: &[(&str, Severity, &[(&str, &str)], &[(&str, &str)])] = &[
        (
            "redis.eviction",
            Danger,
            &[("maxmemory-policy", "allkeys-lru"), ("maxmemory", "1gb")],
            &[("maxmemory-policy", "noeviction")],
        ),
        ("redis.memory", Warning, &[("maxmemory", nearly.as_str())], &[("maxmemory", "0")]),
        ("redis.memory", Danger, &[("maxmemory", "1mb")], &[("maxmemory", "0")]),
        ("redis.idle_timeout", Note, &[("timeout", "9")], &[("timeout", "0")]),
        ("redis.spare_replica", Danger, &[("min-replicas-to-write", "1")], &[("min-replicas-to-write", "0")]),
        ("redis.persistence", Warning, &[], &[("appendonly", "yes")]),
    ];
    for (rule, severity, breaks, mends) in table {
        set(&server, breaks);
        found_as(&locks, rule, *severity).await;
        set(&server, mends);
        gone(&locks, rule).await;
    }
    // The test does what the advice says.
    set(&server, &[("maxmemory-policy", "allkeys-lru"), ("maxmemory", "1gb")]);
    let finding = found_as(&locks, "redis.eviction", Danger).await;
    assert!(finding.advice.contains("`CONFIG SET maxmemory-policy noeviction`"), "{finding}");
    assert!(finding.found.contains("allkeys-lru") && finding.found.contains("1024.0 MB"), "{finding}");
}

#[tokio::test]
async fn what_happened_since_the_start_is_found() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    set(&server, &[("maxmemory-policy", "allkeys-lru"), ("maxmemory", "4mb")]);
    for number in 0..10 {
        server.command(&["SETRANGE", &format!("key{number}"), "1000000", "x"]);
    }
    found_as(&locks, "redis.evicted", Warning).await;
    set(&server, &[("maxmemory-policy", "noeviction"), ("maxmemory", "0")]);
    assert!(found_as(&locks, "redis.evicted", Warning).await.advice.contains("`CONFIG RESETSTAT`"));
    server.command(&["CONFIG", "RESETSTAT"]);
    gone(&locks, "redis.evicted").await;

    // A snapshot fails because it cannot replace a directory.
    let file = server.directory().join("dump.rdb");
    std::fs::create_dir_all(file.join("inside")).expect("a directory");
    set(&server, &[("save", "3600 1")]);
    server.command(&["BGSAVE"]);
    found_as(&locks, "redis.bgsave", Danger).await;
    set(&server, &[("stop-writes-on-bgsave-error", "no")]);
    found_as(&locks, "redis.bgsave", Warning).await;
    std::fs::remove_dir_all(&file).expect("a directory");
    server.command(&["BGSAVE"]);
    gone(&locks, "redis.bgsave").await;
}

#[tokio::test]
async fn a_server_with_as_many_clients_as_it_allows_is_found() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let connect = || TcpStream::connect(("127.0.0.1", server.port())).expect("the server accepts");
    let mut idle: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    wait_until("all are counted", PATIENCE, async || {
        server.info("connected_clients").trim().parse::<u32>().is_ok_and(|count| count >= 21)
    })
    .await;
    let count: u32 = server.info("connected_clients").trim().parse().expect("a number");
    set(&server, &[("maxclients", &(count + 1).to_string())]);
    found_as(&locks, "redis.clients", Warning).await;
    // The server accepts these connections, and closes them at once.
    let refused: Vec<TcpStream> = (0..5).map(|_| connect()).collect();
    found_as(&locks, "redis.rejected", Warning).await;
    drop(refused);
    idle.clear();
    gone(&locks, "redis.clients").await;
    set(&server, &[("maxclients", "10000")]);
    server.command(&["CONFIG", "RESETSTAT"]);
    gone(&locks, "redis.rejected").await;
}

#[tokio::test]
async fn a_clock_that_differs_from_ours_is_found() {
    let clock = Arc::new(Clock::new());
    let server = RedisServer::builder().clock(&clock).start();
    let locks = manager(&server).await;
    gone(&locks, "redis.clock").await;
    clock.ahead(Duration::from_secs(31));
    assert!(found_as(&locks, "redis.clock", Warning).await.found.contains("s ahead of this machine's"));
    clock.behind(Duration::from_secs(31));
    wait_until("it is behind", PATIENCE, async || {
        found_as(&locks, "redis.clock", Warning).await.found.contains("s behind this machine's")
    })
    .await;
    clock.ahead(Duration::ZERO);
    gone(&locks, "redis.clock").await;
}

#[tokio::test]
async fn replicas_that_lag_or_are_not_waited_for_are_found() {
    let primary = RedisServer::start();
    let replica = Replica::of(&primary);
    let locks = manager(&primary).await;
    found_as(&locks, "redis.failover", Warning).await;
    set(&primary, &[("min-replicas-to-write", "1")]);
    found_as(&locks, "redis.failover", Note).await;
    found_as(&locks, "redis.spare_replica", Warning).await;
    wait_until("it reports", PATIENCE, async || primary.info("min_slaves_good_slaves") == "1").await;
    let durable: LockManager = connect(&format!("{}?durability=replicas(1)", primary.url())).await;
    gone(&durable, "redis.failover").await;
    found_as(&durable, "redis.spare_replica", Warning).await;
    let second = Replica::of(&primary);
    gone(&durable, "redis.spare_replica").await;
    replica.server().stop();
    let finding = found_as(&locks, "redis.replica_lag", Warning).await;
    assert!(finding.found.contains(&replica.server().port().to_string()), "{finding}");
    replica.server().cont();
    gone(&locks, "redis.replica_lag").await;
    drop((replica, second));
    found_as(&locks, "redis.spare_replica", Danger).await;
    set(&primary, &[("min-replicas-to-write", "0")]);
    gone(&locks, "redis.spare_replica").await;
    gone(&locks, "redis.failover").await;
}

/// One note names the missing right, and all other findings are still reported.
#[tokio::test]
async fn what_the_user_may_not_read_is_one_note() {
    let server = RedisServer::start();
    set(&server, &[("maxmemory-policy", "allkeys-lru"), ("maxmemory", "1gb")]);
    server.command(&["ACL", "SETUSER", "app", "on", ">s3cret", "~*", "&*", "+@all", "-config"]);
    let locks = connect(&server.url_for("app", "s3cret")).await;
    let expected = [("redis.eviction", Danger), ("redis.persistence", Warning), ("redis.unread", Note)];
    assert_eq!(rules(&locks).await, expected);
    let finding = found_as(&locks, "redis.unread", Note).await;
    assert_eq!(finding.advice, "`ACL SETUSER app +config|get`, and `ACL SAVE` if there is an aclfile");
    server.command(&["ACL", "SETUSER", "app", "+config|get"]);
    gone(&locks, "redis.unread").await;
    let hidden = RedisServer::builder().configs("rename-command", &["CONFIG", ""]).start();
    let locks = manager(&hidden).await;
    assert_eq!(rules(&locks).await, [("redis.persistence", Warning), ("redis.unread", Note)]);
    drop(hidden);
    assert!(locks.doctor().await.expect_err("nobody answers").is_unavailable());
}
