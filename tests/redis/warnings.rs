//! The warnings at start-up about settings that can lose a lock. Each test also has a correct server, about which
//! nothing is logged.

use lock_core::LockManager;
use lock_tests::{PATIENCE, RedisServer, Replica, Warnings, wait_until};

use crate::support::{LONG, connect, cycle};

/// Connects twice and acquires a lock. Returns the warnings about the server meanwhile.
async fn said_of(server: &RedisServer, url: &str) -> Vec<String> {
    Warnings::listen();
    let address = format!("127.0.0.1:{}", server.port());
    assert!(Warnings::with(&address).is_empty(), "nobody has come yet");
    let locks = connect(url).await;
    let guard = locks.lock("k").ttl(LONG).acquire().await.expect("the key is free");
    let of_one = Warnings::with(&address);
    // A further connection of the same manager, on another runtime, logs no warning.
    let again = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            cycle(&locks, "another").await;
            guard.release().await.expect("an answer");
        });
    });
    again.join().expect("no panic");
    assert_eq!(Warnings::with(&address), of_one, "it is said once");
    of_one
}

#[tokio::test]
async fn a_server_that_may_throw_locks_away_is_named() {
    let policy = |policy| {
        let server = RedisServer::builder().config("maxmemory", "64mb");
        server.config("maxmemory-policy", policy).start()
    };
    let server = policy("allkeys-lru");
    let said = said_of(&server, &server.url()).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("may evict locks") && said[0].contains("policy=\"allkeys-lru\""), "{said:?}");

    let server = policy("noeviction");
    assert_eq!(said_of(&server, &server.url()).await, Vec::<String>::new());
    // Without a memory limit no key is evicted, whatever the policy is.
    let server = RedisServer::builder().config("maxmemory-policy", "allkeys-lru").start();
    assert_eq!(said_of(&server, &server.url()).await, Vec::<String>::new());
}

async fn replicated(min_replicas: &str) -> (RedisServer, Replica) {
    let primary = RedisServer::builder().config("min-replicas-to-write", min_replicas).start();
    let replica = Replica::of(&primary);
    wait_until("the replica is there", PATIENCE, async || primary.info("connected_slaves") == "1").await;
    wait_until("it has answered", PATIENCE, async || {
        min_replicas == "0" || primary.info("min_slaves_good_slaves") == "1"
    })
    .await;
    (primary, replica)
}

#[tokio::test]
async fn a_primary_that_may_be_replaced_and_goes_on_is_named() {
    let (primary, _replica) = replicated("0").await;
    let said = said_of(&primary, &primary.url()).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("min-replicas-to-write is 0"), "{said:?}");

    let (primary, _replica) = replicated("1").await;
    assert_eq!(said_of(&primary, &primary.url()).await, Vec::<String>::new());
    // Without a replica, no other server could be promoted.
    let alone = RedisServer::start();
    assert_eq!(said_of(&alone, &alone.url()).await, Vec::<String>::new());
}

#[tokio::test]
async fn durability_that_cannot_be_proved_for_want_of_a_permission_is_named() {
    let (primary, _replica) = replicated("1").await;
    for (user, permissions) in [("may", "+@all"), ("maynot", "+@all -config")] {
        let mut command = vec!["ACL", "SETUSER", user, "on", ">s3cret", "~*", "&*"];
        command.extend(permissions.split_whitespace());
        primary.command(&command);
    }
    let url = |user: &str| {
        let url = primary.url().replacen("://", &format!("://{user}:s3cret@"), 1);
        format!("{url}?durability=replicas(1)&timeout=3s")
    };
    assert_eq!(said_of(&primary, &url("may")).await, Vec::<String>::new());
    // A user that may not read the settings is refused, unless the URL declares them correct.
    let error = LockManager::connect(&url("maynot")).await.expect_err("it cannot be proved");
    assert!(!error.is_temporary() && error.to_string().contains("min-replicas-to-write"), "{error}");
    let assumed = format!("{}&min_replicas=assumed", url("maynot"));
    let said = said_of(&primary, &assumed).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("min-replicas-to-write of redis could not be read"), "{said:?}");
    assert!(!format!("{said:?}").contains("s3cret"));
}
