//! Every kind of lock, and the requests that are refused.

use lock_core::{LockErrorKind, Released};
use lock_tests::{PATIENCE, ZooKeeperServers, wait_until};

use crate::outside::{every_call_outside, refused_outside};
use crate::support::{LONG, SESSION, connect, try_once, url};

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_excludes_as_it_should() {
    let servers = ZooKeeperServers::start();
    let (locks, other) = (connect(&url(&servers)).await, connect(&url(&servers)).await);
    let exclusive = locks.fair("k").ttl(LONG).acquire().await.expect("free");
    assert!(other.read("k").ttl(LONG).try_acquire().await.expect("an answer").is_none());
    assert_eq!(exclusive.release().await.expect("an answer"), Released::Released);

    let reader = locks.read("k").ttl(LONG).acquire().await.expect("free");
    let second = other.read("k").ttl(LONG).acquire().await.expect("beside a reader");
    assert!(other.write("k").ttl(LONG).try_acquire().await.expect("an answer").is_none());
    reader.release().await.expect("an answer");
    second.release().await.expect("an answer");

    let writer = locks.write("k").ttl(LONG).acquire().await.expect("free");
    let writer = writer.downgrade().await.expect("a reader");
    let second = other.read("k").ttl(LONG).acquire().await.expect("beside a reader");
    assert!(other.write("k").ttl(LONG).try_acquire().await.expect("an answer").is_none());
    writer.release().await.expect("an answer");
    second.release().await.expect("an answer");

    let permits = [
        locks.semaphore("s", 2).ttl(LONG).acquire().await.expect("free"),
        other.semaphore("s", 2).ttl(LONG).acquire().await.expect("free"),
    ];
    let waiting = tokio::spawn(other.semaphore("s", 2).ttl(LONG).wait(PATIENCE).acquire());
    assert!(locks.semaphore("s", 2).ttl(LONG).try_acquire().await.expect("an answer").is_none());
    let [first, second] = permits;
    second.release().await.expect("an answer");
    waiting.await.expect("no panic").expect("a permit").release().await.expect("an answer");
    first.release().await.expect("an answer");
}

/// Another program, which does not support permits, queues between two permits. The second permit waits and is not
/// refused.
#[tokio::test]
async fn a_permit_waits_for_a_lock_of_another_program() {
    let servers = ZooKeeperServers::start();
    let (locks, other) = (connect(&url(&servers)).await, connect(&url(&servers)).await);
    let client = zookeeper_client::Client::connect(&servers.hosts()).await.expect("a client");
    let first = locks.semaphore("s", 1).ttl(LONG).acquire().await.expect("free");
    let options =
        zookeeper_client::CreateMode::EphemeralSequential.with_acls(zookeeper_client::Acls::anyone_all());
    let path = "/locks/s/_c_01234567-89ab-cdef-0123-456789abcdef-lock-";
    let (_, number) = client.create(path, b"", &options).await.expect("it queues");
    let waiting = tokio::spawn(other.semaphore("s", 1).ttl(LONG).wait(LONG).acquire());
    // The first read must find the permit for which the second one waits. If it finds only the foreign lock, the
    // request is refused. After the read, the second permit watches the first.
    let watches = || {
        servers
            .watches_by_path()
            .iter()
            .any(|(path, _)| path.starts_with("locks/s/") && path.contains("-permit-"))
    };
    wait_until("the permit waits", PATIENCE, async || watches()).await;
    first.release().await.expect("an answer");
    // The waiter reads the queue every two seconds, and now finds only the foreign lock.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert!(!waiting.is_finished(), "it was refused");
    client.delete(&format!("{path}{number}"), None).await.expect("it held the key");
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
    next.expect("its turn").release().await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_does_not_have_is_refused() {
    let servers = ZooKeeperServers::start();
    let locks = connect(&url(&servers)).await;
    let kind = |error: lock_core::LockError| (error.kind(), error.to_string());
    let latch = locks.latch("a").ttl(LONG).set(1).await;
    let (latch, text) = kind(latch.expect_err("no"));
    assert_eq!(latch, LockErrorKind::Unsupported, "{text}");
    let short = locks.lock("a").ttl(SESSION / 2).acquire().await.expect_err("shorter than a session");
    assert_eq!(short.kind(), LockErrorKind::InvalidRequest);
    assert!(short.to_string().contains("ttl is 3s: the zookeeper store holds 6s to"), "{short}");
    let guard = try_once(&locks, "a").await.expect("nothing was taken");
    guard.release().await.expect("an answer");
}

/// A plain executor polls each call. The call works, or its error says what is missing.
#[test]
fn no_call_panics_outside_of_tokio() {
    let servers = ZooKeeperServers::start();
    every_call_outside(&url(&servers));
    refused_outside(lock_core::backend::zookeeper::ZooKeeper::connect(&url(&servers)));
}
