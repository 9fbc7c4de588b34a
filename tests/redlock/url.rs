//! `redlock://` from the URL to the lock.

use lock_core::{LockErrorKind, LockManager, ManagerBuilder};
use lock_tests::{Bound, PATIENCE, RedisServer};

use crate::support::{MAX_TTL, new_cluster};

pub(crate) fn url(servers: &[RedisServer], credentials: &str, options: &str) -> String {
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    format!("redlock://{credentials}{}/{options}", hosts.join(","))
}

/// Connects a manager with a default lease that `max_ttl` allows.
pub(crate) async fn connect(url: &str) -> LockManager {
    let builder = ManagerBuilder::connect(url).await.expect("two of three are up");
    builder.ttl(MAX_TTL).build().expect("a ttl that it can hold")
}

/// Returns whether a majority answers that another client holds the key. An answer may take longer than the majority
/// waits.
async fn is_refused(locks: &LockManager, key: &str) -> bool {
    let bound = Bound::new(PATIENCE);
    loop {
        match locks.lock(key).try_acquire().await {
            Ok(guard) => return guard.is_none(),
            Err(error) => assert!(error.is_temporary(), "{error}"),
        }
        bound.check("an answer");
    }
}

#[tokio::test]
async fn the_url_makes_a_majority() {
    let mut servers: Vec<RedisServer> =
        (0..3).map(|_| RedisServer::builder().password("s3cret").start()).collect();
    new_cluster(&servers.iter().collect::<Vec<_>>(), MAX_TTL).await;
    let url = url(&servers, ":s3cret@", "?max_ttl=3s&timeout=400ms");
    servers[0].kill9();
    let locks = connect(&url).await;
    let guard = locks.lock("order:42").ttl(MAX_TTL).acquire().await.expect("nobody else is there");
    let other = connect(&url).await;
    assert!(is_refused(&other, "order:42").await);
    // The lock is renewed well beyond its lease, by a majority with one restarted server.
    servers[0].restart();
    tokio::time::sleep(MAX_TTL * 3 / 2).await;
    guard.check().expect("it is renewed");
    guard.release().await.expect("an answer");
    let guard = other.lock("order:42").ttl(MAX_TTL).acquire().await.expect("it was given back");
    guard.release().await.expect("an answer");
    let error = locks.lock("order:42").ttl(MAX_TTL + MAX_TTL).acquire().await.expect_err("too long");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
}

#[tokio::test]
async fn three_five_and_seven_servers_survive_the_loss_of_one_two_and_three() {
    for spare in 1..=3 {
        let mut servers: Vec<RedisServer> = (0..=2 * spare).map(|_| RedisServer::start()).collect();
        new_cluster(&servers.iter().collect::<Vec<_>>(), MAX_TTL).await;
        let locks = connect(&url(&servers, "", "?max_ttl=3s")).await;
        let guard = locks.lock("held").acquire().await.expect("nobody else is there");
        for server in &mut servers[..spare] {
            server.kill9();
        }
        // The lock is renewed well beyond its lease by the remaining servers. They also grant another lock.
        tokio::time::sleep(MAX_TTL * 3 / 2).await;
        guard.check().expect("it is renewed");
        assert!(is_refused(&locks, "held").await);
        locks.lock("other").run(async {}).await.expect("a majority is left");
        servers[spare].kill9();
        let error = locks.lock("late").try_acquire().await.expect_err("one too many");
        assert_eq!(error.kind(), LockErrorKind::NoQuorum, "{error}");
        guard.lost().await;
    }
}

#[tokio::test]
async fn what_cannot_be_a_majority_is_refused() {
    let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let even = LockManager::connect(&url(&servers[..2], "", "")).await.expect_err("an even number");
    assert_eq!(even.kind(), LockErrorKind::InvalidRequest);
    assert!(even.to_string().contains("even number"), "{even}");
    let options =
        LockManager::connect(&url(&servers, "u:s3cret@", "?node_timout=1s")).await.expect_err("a slip");
    assert_eq!(options.kind(), LockErrorKind::InvalidRequest);
    assert!(options.to_string().contains("did you mean `node_timeout`?"), "{options}");
    let wrong =
        LockManager::connect(&url(&servers, "who:s3cret@", "")).await.expect_err("there is no such user");
    assert!(wrong.kind() == LockErrorKind::Unavailable && !wrong.is_temporary(), "{wrong}");
    for error in [even, options, wrong] {
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}
