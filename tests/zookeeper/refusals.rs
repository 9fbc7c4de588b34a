//! Missing servers, and missing permissions.

use lock_core::testkit::names;
use lock_core::{LockErrorKind, LockManager};
use lock_tests::{PATIENCE, Proxy, ZooKeeperServers, wait_until};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

use crate::support::{LONG, connect, ms, refused, try_once, url};

#[tokio::test]
async fn a_server_that_is_missing_or_stopped_is_named() {
    let servers = ZooKeeperServers::start();
    servers.stop(0);
    let error = refused(&format!("{}&connect_timeout=500ms", url(&servers))).await;
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    assert!(error.is_temporary() && error.to_string().contains("ZooKeeper at 127.0.0.1"), "{error}");
    let gone = format!("{}&connect_timeout=1s", url(&servers));
    drop(servers);
    let error = refused(&gone).await;
    assert!(error.is_temporary() && error.to_string().contains("cannot connect"), "{error}");
}

/// A server that has just started, or has only a fraction of a core, accepts connections before it answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_greets_late_is_waited_for() {
    let servers = crate::support::patient_servers();
    let proxy = Proxy::to(servers.address(0));
    let url = format!("zookeeper://127.0.0.1:{}/locks?session_timeout=10s", proxy.port());
    let connecting = async move { LockManager::connect(&url).await };
    let locks = Proxy::greeting_late(std::slice::from_ref(&proxy), ms(3_000), connecting).await;
    works(&locks.expect("the server has answered")).await;
}

/// A name may resolve to several servers, and to some that have ended. The port of the URL does not matter here.
#[tokio::test(flavor = "multi_thread")]
async fn every_address_of_a_name_is_tried() {
    let servers = crate::support::patient_servers();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    names::lead("several.test", &[silent.local_addr().expect("an address"), servers.address(0)]);
    let url = "zookeeper://several.test/locks?session_timeout=10s&connect_timeout=60s&timeout=60s";
    works(&connect(url).await).await;
}

/// A starting server first refuses connections.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_is_waited_for() {
    let mut servers = ZooKeeperServers::start();
    servers.kill9(0);
    let url = url(&servers);
    let connecting =
        tokio::spawn(async move { LockManager::connect(&format!("{url}&connect_timeout=60s")).await });
    tokio::time::sleep(ms(1_500)).await;
    assert!(!connecting.is_finished(), "it still tries");
    servers.restart(0);
    works(&connecting.await.expect("no panic").expect("the server has started")).await;
}

/// If the URL names a user, no other user can change the locks. A user without permission gets an error that says so.
#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_user_are_closed_to_others() {
    let servers = ZooKeeperServers::start();
    let named = |user: &str| {
        let hosts = servers.hosts();
        format!("zookeeper://{user}{hosts}/closed?session_timeout=6s")
    };
    let locks = connect(&named("app:s3cret@")).await;
    let guard = try_once(&locks, "k").await.expect("free");
    for other in ["", "app:wrong@"] {
        let error = refused(&named(other)).await;
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        assert!(!error.is_temporary() && error.to_string().contains("no permission"), "{error}");
    }
    let friend = connect(&named("app:s3cret@")).await;
    assert_eq!(try_once(&friend, "k").await.expect_err("held").kind(), LockErrorKind::Contended);
    guard.release().await.expect("an answer");
    let guard = friend.lock("k").ttl(LONG).acquire().await.expect("free");
    guard.release().await.expect("an answer");
}

/// A heartbeat needs the permission to read the directory of the locks. Without it no lock would last, so the start
/// fails with an error that says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_may_not_be_read_is_refused_at_the_start() {
    let servers = ZooKeeperServers::start();
    let admin = Client::connect(&servers.hosts()).await.expect("a client");
    let unread =
        [Acl::new(Permission::CREATE, AuthId::anyone()), Acl::new(Permission::DELETE, AuthId::anyone())];
    admin
        .create("/locks", b"", &CreateMode::Persistent.with_acls(Acls::new(&unread)))
        .await
        .expect("it is new");
    let error = refused(&url(&servers)).await;
    assert!(!error.is_temporary() && error.to_string().contains("no permission"), "{error}");
}

/// Another program may hold the key with a node that no one else may read. Clients wait for it as for any other node,
/// and a client that gives up leaves no node.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_nobody_may_read_is_waited_for() {
    let servers = ZooKeeperServers::start();
    let locks = connect(&url(&servers)).await;
    works(&locks).await;
    let other = Client::connect(&servers.hosts()).await.expect("a client");
    let closed = [Acl::new(Permission::DELETE, AuthId::anyone())];
    let options = CreateMode::EphemeralSequential.with_acls(Acls::new(&closed));
    other.create("/locks/k/lock-", b"secret", &options).await.expect("the directory is there");
    let error = try_once(&locks, "k").await.expect_err("held");
    assert_eq!(error.kind(), LockErrorKind::Contended, "{error}");
    let waiting = tokio::spawn(locks.lock("k").ttl(LONG).wait(PATIENCE).acquire());
    wait_until("it waits", PATIENCE, async || servers.nodes("locks/k") == 2).await;
    drop(other);
    let guard = waiting.await.expect("no panic").expect("free once the session of the other is over");
    guard.release().await.expect("an answer");
    assert_eq!(servers.nodes("locks/k"), 0);
}

/// The directory of the locks may already exist, in a directory in which this user may create nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_below_a_closed_one_is_used() {
    let servers = ZooKeeperServers::start();
    let admin = Client::connect(&servers.hosts()).await.expect("a client");
    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let read = [Acl::new(Permission::READ, AuthId::anyone())];
    admin.create("/closed", b"", &open).await.expect("it is new");
    admin.create("/closed/locks", b"", &open).await.expect("it is new");
    admin.set_acl("/closed", &read, None).await.expect("it may");
    let locks = connect(&format!("{}?session_timeout=6s", servers.url("closed/locks"))).await;
    works(&locks).await;
}

async fn works(locks: &LockManager) {
    let guard = try_once(locks, "k").await.expect("free");
    guard.release().await.expect("an answer");
}
