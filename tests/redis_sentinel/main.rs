//! Locks on a primary that sentinels name, and the effect of a failover on them.

mod doctor;
#[path = "../findings/mod.rs"]
mod findings;
mod following;
mod ping;
#[path = "../pings/mod.rs"]
mod pings;
mod secure;

use std::time::Duration;

use lock_core::testkit::names;
use lock_core::{LockError, LockErrorKind, LockGuard, LockManager, LossReason, strategy};
use lock_tests::{PATIENCE, Proxy, RedisServer, Sentinels, wait_until};

/// A lease that no test outlives, so that only a failover ends it.
const LONG: Duration = Duration::from_secs(60);
/// The time limit for a failover. The sentinels wait for a second, vote and promote. `following.rs` tests how soon the
/// library follows.
const FAILOVER: Duration = PATIENCE;

async fn connect(sentinels: &Sentinels) -> LockManager {
    LockManager::connect(&sentinels.url()).await.expect("the primary takes locks")
}

/// Acquires the lock as soon as a primary grants it.
async fn locked(locks: &LockManager, key: &str) -> LockGuard {
    let request = locks.lock(key).ttl(LONG).strategy(strategy::wait());
    let acquired = tokio::time::timeout(FAILOVER, request.acquire()).await;
    acquired.expect("a failover is over").expect("granted")
}

async fn replicated(sentinels: &Sentinels, key: &str) {
    wait_until("the replica has it", PATIENCE, async || {
        sentinels.replica.server().keys().iter().any(|held| held == key)
    })
    .await;
}

#[tokio::test]
async fn the_sentinels_say_where_the_primary_is() {
    let mut sentinels = Sentinels::start();
    let locks = connect(&sentinels).await;
    let guard = locks.lock("k").ttl(LONG).acquire().await.expect("free");
    assert_eq!(sentinels.primary.keys(), ["k"]);
    let elsewhere = connect(&sentinels).await;
    assert!(elsewhere.lock("k").try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("an answer");

    let error = LockManager::connect(&sentinels.url_of("other")).await.expect_err("no such primary");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    assert!(error.to_string().contains("watch no primary `other`"), "{error}");

    // A server that is no sentinel is reported at once, and not after `connect_timeout`.
    let url =
        format!("redis+sentinel://127.0.0.1:{}/mymaster?connect_timeout=600s", sentinels.primary_port());
    let error = LockManager::connect(&url).await.expect_err("it is no sentinel");
    assert!(error.to_string().contains("a server that is no sentinel answered"), "{error}");

    // The manager connects with two of three sentinels, with one of three, and with none.
    for number in 0..2 {
        sentinels.kill(number);
        let late = connect(&sentinels).await;
        late.lock("k").run(async {}).await.expect("free");
    }
    sentinels.kill(2);
    let url = format!("{}?connect_timeout=1s", sentinels.url());
    let error = LockManager::connect(&url).await.expect_err("nobody says where");
    assert!(error.is_unavailable() && error.is_temporary(), "{error}");
    assert!(error.to_string().contains("no sentinel says where `mymaster` is"), "{error}");
    // An established connection continues.
    locks.lock("k").run(async {}).await.expect("the connection is there");
}

/// Sentinels with a fraction of a core accept connections before they answer.
#[tokio::test]
async fn sentinels_that_greet_late_are_waited_for() {
    let sentinels = Sentinels::start();
    let url = sentinels.url();
    let (hosts, name) =
        url.strip_prefix("redis+sentinel://").and_then(|url| url.split_once('/')).expect("a URL");
    let before = |host: &str| Proxy::to(host.parse().expect("an address"));
    let proxies: Vec<Proxy> = hosts.split(',').map(before).collect();
    let places: Vec<String> = proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
    let url = format!("redis+sentinel://{}/{name}", places.join(","));
    let connecting = async move { LockManager::connect(&url).await };
    let locks = Proxy::greeting_late(&proxies, Duration::from_secs(3), connecting).await;
    locks.expect("the sentinels have answered").lock("k").run(async {}).await.expect("free");
}

/// A name may resolve to all sentinels. The port of the URL does not matter here.
#[tokio::test]
async fn every_address_of_a_name_is_a_sentinel() {
    let mut sentinels = Sentinels::start();
    let url = sentinels.url();
    let (hosts, name) =
        url.strip_prefix("redis+sentinel://").and_then(|url| url.split_once('/')).expect("a URL");
    let addresses: Vec<_> = hosts.split(',').map(|host| host.parse().expect("an address")).collect();
    names::lead("sentinels.test", &addresses);
    let url = format!("redis+sentinel://sentinels.test/{name}");
    for number in 0..2 {
        sentinels.kill(number);
        let locks = LockManager::connect(&url).await.expect("one of them knows");
        locks.lock("k").run(async {}).await.expect("free");
    }
}

#[tokio::test]
async fn the_sentinels_have_a_login_of_their_own() {
    let sentinels = Sentinels::start();
    sentinels.command(&[
        "ACL",
        "SETUSER",
        "asker",
        "on",
        ">s3cret",
        "&*",
        "+hello",
        "+subscribe",
        "+sentinel|master",
        "+sentinel|masters",
        "+sentinel|get-master-addr-by-name",
    ]);
    // New connections have to log in. Those between the sentinels are already established.
    sentinels.command(&["ACL", "SETUSER", "default", "resetpass", ">other"]);
    let refused = async |url: &str| {
        let error = LockManager::connect(url).await.expect_err("not without the login");
        assert!(error.is_unavailable() && !error.is_temporary(), "{error}");
        assert!(error.to_string().contains("options `sentinel_user` and `sentinel_password`"), "{error}");
        assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
        error.to_string()
    };
    let text = refused(&sentinels.url()).await;
    assert!(text.contains("(NOAUTH)"), "{text}");
    let text = refused(&format!("{}?sentinel_password=wr0ng", sentinels.url())).await;
    assert!(text.contains("(WRONGPASS)"), "{text}");

    let url = format!("{}?sentinel_user=asker&sentinel_password=s3cret", sentinels.url());
    let locks = LockManager::connect(&url).await.expect("the primary takes locks");
    assert!(!format!("{locks:?}").contains("s3cret"));
    locks.lock("k").run(async {}).await.expect("free");
}

/// The client checks the rights of the user on the primary that the sentinels name, as on a single server.
#[tokio::test]
async fn a_right_that_lacks_on_the_primary_is_named_when_the_library_connects() {
    let sentinels = Sentinels::start();
    let user = ["ACL", "SETUSER", "app", "on", ">s3cret", "~*", "&*", "+@all", "-evalsha", "-zadd"];
    sentinels.primary.command(&user);
    let url = sentinels.url().replacen("://", "://app:s3cret@", 1);
    let error = LockManager::connect(&url).await.expect_err("nothing could be released");
    assert!(error.is_unavailable() && !error.is_temporary(), "{error}");
    assert!(error.to_string().contains("`EVALSHA`, `ZADD` (NOPERM)"), "{error}");
}

/// The sentinels may not send notifications, but they answer when the library queries them from time to time.
#[tokio::test]
async fn a_failover_is_followed_where_the_sentinels_may_not_tell_of_it() {
    let sentinels = Sentinels::start();
    let permissions = ["&*", "-@all", "+hello", "+sentinel|master", "+sentinel|get-master-addr-by-name"];
    sentinels.command(&[&["ACL", "SETUSER", "asker", "on", ">s3cret"], &permissions[..]].concat());
    let url = format!("{}?sentinel_user=asker&sentinel_password=s3cret", sentinels.url());
    let locks = LockManager::connect(&url).await.expect("the primary takes locks");
    locks.lock("k").run(async {}).await.expect("free");
    // The old primary runs for seconds without a replica, so no broken connection reports the failover either.
    sentinels.fail_over();
    wait_until("another is promoted", FAILOVER, async || {
        sentinels.primary_port() == sentinels.replica.server().port()
    })
    .await;
    wait_until("locks are taken on it", PATIENCE, async || {
        let guard = locked(&locks, "k").await;
        let found = sentinels.replica.server().keys().contains(&"k".to_owned());
        // The release runs while another connection replaces the broken one.
        let released = guard.release().await;
        assert!(released.as_ref().err().is_none_or(LockError::is_temporary), "{released:?}");
        found
    })
    .await;
    assert_eq!(sentinels.primary.info("role"), "master", "the old one has not been told yet");
}

#[tokio::test]
async fn a_failover_is_followed_and_a_replicated_lock_survives_it() {
    let mut sentinels = Sentinels::start();
    // The release happens directly after the failover, when the new connections are still being made.
    let holder = LockManager::connect(&format!("{}?timeout=5s", sentinels.url())).await;
    let (holder, other) = (holder.expect("the primary takes locks"), connect(&sentinels).await);
    let guard = holder.lock("job").ttl(LONG).acquire().await.expect("free");
    replicated(&sentinels, "job").await;
    sentinels.primary.kill9();
    // This is another key, on the new primary.
    let next = locked(&other, "next").await;
    assert!(sentinels.replica.server().keys().contains(&"next".to_owned()));
    assert!(other.lock("job").try_acquire().await.expect("an answer").is_none(), "it is held there too");
    assert!(guard.is_held());
    guard.release().await.expect("the new primary answers");
    assert!(other.lock("job").try_acquire().await.expect("an answer").is_some());
    next.release().await.expect("an answer");
}

#[tokio::test]
async fn a_lock_that_was_not_replicated_is_lost_and_told_and_its_token_is_smaller() {
    let mut sentinels = Sentinels::start();
    let (old, new) = (connect(&sentinels).await, connect(&sentinels).await);
    sentinels.replica.detach(&sentinels.primary);
    let ttl = Duration::from_secs(3);
    let guard = old.lock("job").ttl(ttl).fencing(true).acquire().await.expect("free");
    let first = guard.fencing_token().await.expect("a token");
    sentinels.primary.kill9();
    let next = new.lock("job").ttl(LONG).fencing(true).strategy(strategy::wait());
    let next = tokio::time::timeout(FAILOVER, next.acquire()).await.expect("a failover").expect("granted");
    let second = next.fencing_token().await.expect("a token");
    assert!(second > first, "{second} after {first}");
    // The loss is reported at the latest with the next renewal, which the new primary answers, or at the end of the
    // lease if that is earlier.
    let reason = tokio::time::timeout(PATIENCE, guard.lost()).await.expect("told");
    assert!(matches!(reason, LossReason::Taken | LossReason::Expired), "{reason}");
    next.release().await.expect("an answer");
}

#[tokio::test]
async fn a_primary_that_comes_back_as_a_replica_is_left() {
    let sentinels = Sentinels::start();
    let locks = connect(&sentinels).await;
    locks.lock("k").run(async {}).await.expect("free");
    sentinels.primary.stop();
    wait_until("another is promoted", FAILOVER, async || {
        sentinels.primary_port() == sentinels.replica.server().port()
    })
    .await;
    sentinels.primary.cont();
    // The old primary still accepts writes for a while without a replica. The lock is granted by the new one.
    let guard = locked(&locks, "k").await;
    let on = |server: &RedisServer| server.keys().contains(&"k".to_owned());
    assert!(on(sentinels.replica.server()));
    guard.release().await.expect("an answer");
}
