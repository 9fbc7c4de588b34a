//! Grants that another program removes, and lists of the grants.

use lock_core::{LockErrorKind, LossReason, Released};
use lock_tests::{PATIENCE, ZooKeeperServers, wait_until};
use tokio::time::timeout;

use crate::support::{LONG, connect, try_once, url};

/// An operator releases a lock by force. The operator's process has never seen the holder. The holder is notified, and
/// the next request gets the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_in_another_process_is_told_of_a_forced_release() {
    let servers = ZooKeeperServers::start();
    let (locks, other) = (connect(&url(&servers)).await, connect(&url(&servers)).await);
    for watched in [false, true] {
        let guard = try_once(&locks, "k").await.expect("free");
        if watched {
            wait_until("it is watched", PATIENCE, async || servers.watches() > 0).await;
        }
        let lock = other.inspect("k").await.expect("an answer").expect("it is held");
        assert_eq!((lock.holding, lock.waiting), (1, 0));
        let record = lock.holders[0].record.as_ref().expect("a record");
        assert_eq!(record.identity().pid(), std::process::id());
        assert!(other.force_release("k", &lock.holders[0].id, "a test").await.expect("an answer"));
        let next = try_once(&other, "k").await.expect("it is free");
        let reason = timeout(PATIENCE, guard.lost()).await.expect("told");
        assert_eq!(reason, LossReason::Taken, "watched: {watched}");
        assert_eq!(next.release().await.expect("an answer"), Released::Released);
    }
    assert!(other.inspect("k").await.expect("an answer").is_none());
}

/// A holder that becomes a reader deletes its own node, which is no loss. If another client deletes the next node, the
/// lock is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_its_own_holder_deletes_is_no_loss() {
    let servers = ZooKeeperServers::start();
    let locks = connect(&url(&servers)).await;
    let writer = locks.write("k").ttl(LONG).acquire().await.expect("free");
    let watched = async || servers.watches() == 1;
    wait_until("it is watched", PATIENCE, watched).await;
    let reader = writer.downgrade().await.expect("a reader");
    wait_until("it is watched again", PATIENCE, watched).await;
    assert!(reader.is_held(), "{:?}", reader.check());
    let client = zookeeper_client::Client::connect(&servers.hosts()).await.expect("a client");
    let [node] = &servers.names("locks/k")[..] else { panic!("one node") };
    client.delete(&format!("/locks/k/{node}"), None).await.expect("it is there");
    assert_eq!(timeout(PATIENCE, reader.lost()).await.expect("told"), LossReason::Taken);
    let guard = try_once(&locks, "k").await.expect("free");
    wait_until("it is watched", PATIENCE, watched).await;
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    wait_until("nothing is watched", PATIENCE, async || servers.watches() == 0).await;
}

/// The locks of other libraries appear in a request for one key, but not in the list.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_is_listed() {
    let servers = ZooKeeperServers::start();
    let locks = connect(&url(&servers)).await;
    let guards =
        [try_once(&locks, "a/b%").await.expect("free"), try_once(&locks, "a/c").await.expect("free")];
    let released = try_once(&locks, "a/d").await.expect("free");
    released.release().await.expect("an answer");
    let client = zookeeper_client::Client::connect(&servers.hosts()).await.expect("a client");
    let options =
        zookeeper_client::CreateMode::EphemeralSequential.with_acls(zookeeper_client::Acls::anyone_all());
    client.create("/locks/a%2Fd/lock-", b"", &options).await.expect("its directory is there");
    let listed = locks.locks_matching("a/").await.expect("a list");
    let keys: Vec<&str> = listed.locks.iter().map(|lock| lock.key.as_str()).collect();
    assert_eq!(keys, ["a/b%", "a/c"]);
    let foreign = locks.inspect("a/d").await.expect("an answer").expect("it is held");
    assert!(foreign.holders[0].record.is_none(), "{foreign:?}");
    let error = try_once(&locks, "a/d").await.expect_err("held");
    assert_eq!(error.kind(), LockErrorKind::Contended);
    assert!(locks.force_release("a/d", &foreign.holders[0].id, "a test").await.expect("an answer"));
    assert!(locks.inspect("a/d").await.expect("an answer").is_none());
    for guard in guards {
        guard.release().await.expect("an answer");
    }
    assert!(locks.locks().await.expect("a list").locks.is_empty());
}
