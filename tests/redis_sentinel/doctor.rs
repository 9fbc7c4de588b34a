//! The findings of `doctor` about the primary that sentinels name, and about the sentinels.

use lock_core::LockManager;
use lock_core::Severity::{Note, Warning};
use lock_tests::{PATIENCE, Sentinels, wait_until};

use super::connect;
use crate::findings::{found_as, gone, rules};

/// Returns the `host:port` of each sentinel.
fn hosts(sentinels: &Sentinels) -> Vec<String> {
    let url = sentinels.url();
    let (hosts, _) =
        url.strip_prefix("redis+sentinel://").and_then(|url| url.split_once('/')).expect("a URL");
    hosts.split(',').map(str::to_owned).collect()
}

#[tokio::test]
async fn the_sentinels_are_looked_at_too() {
    let mut sentinels = Sentinels::start();
    let (locks, hosts) = (connect(&sentinels).await, hosts(&sentinels));
    assert_eq!(rules(&locks).await, [("redis.failover", Warning), ("redis.persistence", Warning)]);

    for quorum in ["1", "4"] {
        sentinels.command(&["SENTINEL", "SET", "mymaster", "quorum", quorum]);
        let finding = found_as(&locks, "redis.sentinel_quorum", Warning).await;
        assert!(hosts.iter().all(|host| finding.about.contains(host.as_str())), "{finding}");
        assert_eq!(finding.advice, "`SENTINEL SET mymaster quorum 2` on every sentinel");
        sentinels.command(&["SENTINEL", "SET", "mymaster", "quorum", "2"]);
        gone(&locks, "redis.sentinel_quorum").await;
    }

    sentinels.command(&["ACL", "SETUSER", "asker", "on", ">s3cret", "&*", "+@all", "-sentinel|master"]);
    let url = format!("{}?sentinel_user=asker&sentinel_password=s3cret", sentinels.url());
    let asker = LockManager::connect(&url).await.expect("the primary takes locks");
    let finding = found_as(&asker, "redis.unread", Note).await;
    assert!(finding.advice.contains("`ACL SETUSER asker +sentinel|master`"), "{finding}");
    sentinels.command(&["ACL", "SETUSER", "asker", "+sentinel|master"]);
    gone(&asker, "redis.unread").await;

    // A sentinel that is down still counts until the others are told to remove it.
    sentinels.kill(2);
    let finding = found_as(&locks, "redis.sentinel_down", Warning).await;
    assert_eq!(finding.about, hosts[2], "{finding}");
    gone(&locks, "redis.sentinels").await;
    for host in &hosts[..2] {
        let client = redis::Client::open(format!("redis://{host}/")).expect("a URL");
        let mut connection = client.get_connection().expect("the sentinel answers");
        redis::cmd("SENTINEL").arg("RESET").arg("mymaster").exec(&mut connection).expect("it forgets");
    }
    found_as(&locks, "redis.sentinels", Warning).await;
}

#[tokio::test]
async fn a_primary_that_cannot_be_replaced_is_found() {
    let sentinels = Sentinels::start();
    let locks = connect(&sentinels).await;
    gone(&locks, "redis.no_replica").await;
    sentinels.replica.detach(&sentinels.primary);
    found_as(&locks, "redis.no_replica", Warning).await;
    sentinels.replica.server().command(&["CONFIG", "SET", "masterauth", ""]);
    wait_until("it is linked", PATIENCE, async || sentinels.primary.info("connected_slaves") == "1").await;
    gone(&locks, "redis.no_replica").await;
}
