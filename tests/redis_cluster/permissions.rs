//! The permissions that a user needs.

use lock_core::{LockErrorKind, LockManager, strategy};
use lock_tests::{PATIENCE, RedisCluster, wait_until};

use crate::support::{LONG, key_on};

/// The permissions that the documentation of the module lists.
const NEEDED: &str = "~shop:* ~{shop:* ~{order}* ~lock:wake:* &lock:wake:* \
    +hello +info +script|load +time +cluster|info +cluster|slots +asking \
    +get +getrange +set +setrange +exists +pttl +pexpire +del +evalsha +ssubscribe +spublish +subscribe +publish \
    +hget +hset +hdel +hexists +hlen +hgetall \
    +zadd +zrem +zremrangebyscore +zscore +zcard +zrank +zrange +zrevrange";

fn allow(cluster: &RedisCluster, permissions: &str) {
    let mut command = vec!["ACL", "SETUSER", "app", "reset", "on", ">s3cret"];
    command.extend(permissions.split_whitespace());
    cluster.nodes.iter().for_each(|node| drop(node.command(&command)));
}

#[tokio::test]
async fn the_documented_permissions_are_enough_and_fewer_are_an_error() {
    let cluster = RedisCluster::start();
    allow(&cluster, NEEDED);
    let url = cluster.url().replacen("://", "://app:s3cret@", 1);
    let connect = async || LockManager::connect(&url).await;
    let (ours, theirs) = (connect().await.expect("enough"), connect().await.expect("enough"));
    let keys = [0, 1, 2].map(|number| key_on(&cluster, number, "shop:k"));
    let all = ours.all(&keys).fencing(true).ttl(LONG).acquire().await.expect("enough");
    all.fencing_token().await.expect("enough");
    all.release().await.expect("enough");
    ours.all(["{order}1", "{order}2"]).run(async {}).await.expect("enough");
    for key in &keys {
        ours.read(key).run(async {}).await.expect("enough");
        ours.semaphore(key, 2).run(async {}).await.expect("enough");
        let holder = ours.fair(key).ttl(LONG).acquire().await.expect("enough");
        let waiter = tokio::spawn({
            let (theirs, key) = (theirs.clone(), key.clone());
            async move { theirs.fair(&key).strategy(strategy::wait()).run(async {}).await }
        });
        let queue = format!("{{{key}}}:q");
        let node = &cluster.nodes[cluster.number_of(key)];
        wait_until("somebody waits", PATIENCE, async || node.keys().contains(&queue)).await;
        holder.release().await.expect("enough");
        waiter.await.expect("no panic").expect("enough");
    }
    for fewer in ["-cluster|slots", "-script|load", "-evalsha", "-asking", "-del -zrem"] {
        allow(&cluster, &format!("{NEEDED} {fewer}"));
        let error = connect().await.expect_err(fewer);
        assert_eq!(error.kind(), LockErrorKind::Unavailable, "{fewer}: {error}");
        assert!(!error.is_temporary(), "{fewer}: {error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
    let error = LockManager::connect(&url.replace("s3cret", "wrong")).await.expect_err("another password");
    assert!(!error.is_temporary() && error.to_string().contains("wrong user or password"), "{error}");
}
