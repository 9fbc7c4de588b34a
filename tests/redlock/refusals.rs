//! The requests that a voter refuses, and the errors.

use std::time::Duration;

use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_core::backend::{Ask, Attempt, Backend};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use lock_core::{LockErrorKind, LockManager, ManagerBuilder};
use lock_tests::{Bound, PATIENCE, Proxy, RedisServer, wait_until};

use crate::support::{Client, MAX_TTL, ms, new_cluster, voting_server};

#[tokio::test]
async fn a_client_with_another_longest_lease_is_told_both() {
    let server = voting_server(MAX_TTL).await;
    for other in [ms(2_900), ms(3_100)] {
        let error = Client::try_of(&server, other).await.expect_err("it says otherwise");
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        assert!(!error.is_temporary());
        let text = error.to_string();
        assert!(text.contains("max_ttl=3s") && text.contains(&format!("{other:?}")), "{text}");
    }
    // After a restart without data there is nothing to compare with. After a restart with data there is.
    let client = Client::of(&server, MAX_TTL).await;
    client.take("k", MAX_TTL).await;
}

/// The test executes the commands of the error text on every voter. The voters have forgotten nothing, so they vote at
/// once.
#[tokio::test]
async fn another_longest_lease_is_agreed_on_as_the_error_says() {
    let mut servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    new_cluster(&servers.iter().collect::<Vec<_>>(), MAX_TTL).await;
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = |max: &str| format!("redlock://{}/?max_ttl={max}", hosts.join(","));
    let first = ManagerBuilder::connect(&url("3s")).await.expect("all are up").ttl(MAX_TTL).build();
    let first = first.expect("a ttl");
    let guard = first.lock("k").acquire().await.expect("they vote");
    let error = LockManager::connect(&url("60s")).await.expect_err("the others say 3s");
    let text = error.to_string();
    assert!(text.contains("wait 3.07s"), "{text}");
    let (_, command) = text.split_once("run `").expect("a command");
    let (command, _) = command.split_once('`').expect("its end");
    // This client was killed, so its lease has to expire.
    let _killed = std::mem::ManuallyDrop::new(guard);
    first.shutdown(Duration::ZERO).await;
    tokio::time::sleep(ms(3_070)).await;
    for server in &mut servers {
        server.command(&command.split(' ').collect::<Vec<_>>());
    }
    let started = Bound::new(ms(30_000));
    let second = LockManager::connect(&url("60s")).await.expect("they agree on it now");
    let held = second.lock("k").wait(ms(30_000)).ttl(ms(59_000)).acquire().await.expect("they vote at once");
    assert!(started.elapsed() < ms(30_000), "half of the quarantine of a voter without a marker");
    held.release().await.expect("an answer");
    LockManager::connect(&url("3s")).await.expect_err("the first clients are too old");
}

#[tokio::test]
async fn a_lease_above_the_longest_is_refused_by_client_and_server() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    assert_eq!(client.voter.capability().max_ttl, MAX_TTL);
    let error = client.refusal("k", ms(3_001)).await;
    assert!(
        error.kind() == LockErrorKind::InvalidRequest && error.to_string().contains("max_ttl=3s"),
        "{error}"
    );
    // The script also refuses a client that does not check.
    server.command(&["HSET", "lock:voter", "max", "2000"]);
    server.command(&["HDEL", "lock:voter", "seal"]);
    let error = client.refusal("k", ms(2_001)).await;
    assert!(error.kind() == LockErrorKind::InvalidRequest, "{error}");
    assert!(error.to_string().contains("2.001s") && error.to_string().contains("max_ttl=2s"), "{error}");
    client.take("k", ms(2_000)).await;
}

/// After a server has forgotten a kept key, it does not vote for the longest lease. If the key were kept for longer, it
/// would be granted again.
#[tokio::test]
async fn a_key_is_kept_no_longer_than_the_longest_lease() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    let locks = LockManager::builder(client.voter).build().expect_err("its leases are longer by default");
    assert_eq!(locks.kind(), LockErrorKind::InvalidRequest);
    let client = Client::of(&server, MAX_TTL).await;
    let locks = LockManager::builder(client.voter).ttl(MAX_TTL).build().expect("good defaults");
    locks.lock("k").min_hold(MAX_TTL).check().expect("so long");
    let error = locks.lock("k").min_hold(MAX_TTL + ms(1)).check().expect_err("longer");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    assert!(error.to_string().contains("min_hold is 3.001s"), "{error}");
}

#[tokio::test]
async fn a_server_that_evicts_may_not_vote() {
    let server = RedisServer::builder().config("maxmemory-policy", "volatile-ttl").start();
    let error = Client::try_of(&server, MAX_TTL).await.expect_err("it may evict");
    assert_eq!(error.kind(), LockErrorKind::Unsupported);
    assert!(error.to_string().contains("maxmemory-policy is volatile-ttl"), "{error}");
    let outcome = Voter::bootstrap_new_cluster([server.url().as_str()], VoterOptions::new(MAX_TTL)).await;
    assert_eq!(outcome.expect_err("it may evict").kind(), LockErrorKind::Unsupported);
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn what_a_voter_does_not_do_is_said() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    let can = client.voter.capability();
    assert!(
        !can.waiting.in_order()
            && !can.waiting.by_heartbeats()
            && !can.waiting.tells_holder()
            && !can.latches
    );
    let error = client.voter.heartbeat(&client.claim("k", MAX_TTL)).await.expect_err("no queue");
    assert_eq!(error.kind(), LockErrorKind::Unsupported);
    let error = client.refusal("lock:voter", MAX_TTL).await;
    assert_eq!(error.kind(), LockErrorKind::InvalidKey);
}

/// A voter that is down does not keep the others from voting. The caller does not notice when it returns.
#[tokio::test]
async fn a_minority_may_be_down_at_the_start() {
    let mut servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let all: Vec<&RedisServer> = servers.iter().collect();
    new_cluster(&all, MAX_TTL).await;
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let connect = || Voter::connect_all(urls.iter().map(String::as_str), VoterOptions::new(MAX_TTL));
    servers[1].kill9();
    let voters = connect().await.expect("two of three are up");
    servers[2].kill9();
    let brief: Vec<String> = urls.iter().map(|url| format!("{url}?connect_timeout=1s")).collect();
    let options = VoterOptions::new(MAX_TTL);
    let error = Voter::connect_all(brief.iter().map(String::as_str), options).await;
    let error = error.expect_err("one of three is up");
    assert_eq!(error.kind(), LockErrorKind::NoQuorum);
    assert!(error.to_string().contains("1 of 3 voters answer within 1s") && error.is_temporary(), "{error}");
    servers[1].restart();
    // The client connects to the voter before any request needs it.
    wait_until("it is registered", PATIENCE, async || servers[1].keys() == ["lock:voter"]).await;
    let claims = Claims::new().expect("random bytes");
    let key = Key::new("k").expect("a key");
    wait_until("the one that was down votes", PATIENCE, async || {
        voters[1].acquire(&claims.exclusive(&key, ms(50)), Ask::Try).await.is_ok()
    })
    .await;
}

/// Servers that have just started, or have only a fraction of a core, accept connections before they answer.
#[tokio::test]
async fn servers_that_greet_late_are_waited_for() {
    let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    new_cluster(&servers.iter().collect::<Vec<_>>(), MAX_TTL).await;
    let proxies: Vec<Proxy> = servers.iter().map(Proxy::before).collect();
    let hosts: Vec<String> = proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
    let url = format!("redlock://{}/?max_ttl=3s", hosts.join(","));
    let connecting = async move { ManagerBuilder::connect(&url).await };
    let builder = Proxy::greeting_late(&proxies, ms(3_000), connecting).await;
    let locks = builder.expect("the servers have answered").ttl(MAX_TTL).build().expect("a ttl");
    locks.lock("k").run(async {}).await.expect("free");
}

/// The servers of a starting majority first refuse connections.
#[tokio::test]
async fn servers_that_start_are_waited_for() {
    let mut servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    new_cluster(&servers.iter().collect::<Vec<_>>(), MAX_TTL).await;
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    servers[1].kill9();
    servers[2].kill9();
    let url = format!("redlock://{}/?max_ttl=3s&connect_timeout=60s", hosts.join(","));
    let connecting = tokio::spawn(async move { ManagerBuilder::connect(&url).await });
    tokio::time::sleep(ms(500)).await;
    assert!(!connecting.is_finished(), "it still tries");
    servers[1].restart();
    drop(connecting.await.expect("no panic").expect("two of three are up"));
}

#[tokio::test]
async fn one_server_under_two_names_has_one_vote() {
    let (one, two) = (RedisServer::start(), RedisServer::start());
    let again = one.url().replace("127.0.0.1", "localhost");
    let urls = [one.url(), two.url(), again];
    let outcome = Voter::connect_all(urls.iter().map(String::as_str), VoterOptions::new(MAX_TTL)).await;
    let error = outcome.expect_err("the first and the last are one");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    assert!(error.to_string().contains("named twice"), "{error}");
}

/// This also holds if the second name answers only after all servers are connected.
#[tokio::test]
async fn one_server_under_two_names_has_one_vote_also_later() {
    let (one, two) = (RedisServer::start(), RedisServer::start());
    new_cluster(&[&one, &two], MAX_TTL).await;
    let again = Proxy::before(&one);
    again.refuse(true);
    let urls = [one.url(), two.url(), again.url()];
    let connected = Voter::connect_all(urls.iter().map(String::as_str), VoterOptions::new(MAX_TTL)).await;
    let voters = connected.expect("two of three are up");
    again.heal();
    let claims = Claims::new().expect("random bytes");
    let key = Key::new("k").expect("a key");
    wait_until("it is found out", PATIENCE, async || {
        let error =
            voters[2].acquire(&claims.exclusive(&key, MAX_TTL), Ask::Try).await.expect_err("no second vote");
        error.kind() == LockErrorKind::InvalidRequest && error.to_string().contains("named twice")
    })
    .await;
    assert!(voters[0].acquire(&claims.exclusive(&key, MAX_TTL), Ask::Try).await.is_ok());
}

/// The permissions that the documentation lists are sufficient, and each of them is necessary.
#[tokio::test]
async fn the_documented_permissions_are_enough() {
    const RULES: &str = "on >s3cret ~shop:* ~{shop:* ~lock:voter &lock:wake:* +hello +select +info +script|load +time \
        +get +getrange +set +setrange +exists +pttl +pexpire +del +evalsha +subscribe +publish +hget +hset +hdel +hexists +hlen \
        +hgetall +zadd +zrem +zremrangebyscore +zscore +zcard +zrank +zrange +zrevrange +multi +exec +eval +hmget +dbsize";
    let server = RedisServer::start();
    let rules: Vec<&str> = ["ACL", "SETUSER", "app"].into_iter().chain(RULES.split_whitespace()).collect();
    server.command(&rules);
    let url = server.url_for("app", "s3cret");
    Voter::bootstrap_new_cluster([url.as_str()], VoterOptions::new(MAX_TTL)).await.expect("it may");
    let voter = Voter::connect(&url, VoterOptions::new(MAX_TTL)).await.expect("it may");
    let claims = Claims::new().expect("random bytes");
    let claim = claims.exclusive(&Key::new("shop:k").expect("a key"), MAX_TTL);
    for _ in 0..2 {
        assert!(matches!(voter.acquire(&claim, Ask::Try).await, Ok(Attempt::Granted(_))));
        server.command(&["SCRIPT", "FLUSH"]);
    }
    server.command(&["ACL", "SETUSER", "app", "-multi"]);
    let error = Voter::connect(&url, VoterOptions::new(MAX_TTL)).await.expect_err("it may not");
    assert!(error.kind() == LockErrorKind::Unavailable && !error.is_temporary(), "{error}");
    server.command(&["ACL", "SETUSER", "app", "+multi", "-zrem", "-pexpire"]);
    let error = Voter::connect(&url, VoterOptions::new(MAX_TTL)).await.expect_err("it could not renew");
    assert!(error.kind() == LockErrorKind::Unavailable && !error.is_temporary(), "{error}");
    assert!(error.to_string().contains("`PEXPIRE`, `ZREM` (NOPERM)"), "{error}");
}
