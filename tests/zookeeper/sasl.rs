//! Locks of users that authenticate with SASL, and the reasons for refusals.

use lock_core::LockErrorKind;
use lock_tests::{Certificates, PATIENCE, ZooKeeperBuilder, ZooKeeperServers, wait_until};
use zookeeper_client::{Acl, AuthId, Client, Permission, SaslOptions};

use crate::support::{connect, refused, try_once, works_again};

/// Passwords with characters that are special in URLs and in SASL.
const USERS: [(&str, &str); 2] = [("app", "s3cret,=@"), ("other", "else")];

fn builder() -> ZooKeeperBuilder {
    ZooKeeperServers::builder().users(&USERS)
}

fn url(servers: &ZooKeeperServers, user: &str, options: &str) -> String {
    format!("zookeeper://{user}{}/closed?session_timeout=6s{options}", servers.hosts())
}

fn app(servers: &ZooKeeperServers) -> String {
    url(servers, "app:s3cret,=%40@", "&auth=sasl")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_sasl_user_belong_to_that_user() {
    let servers = builder().start();
    let (locks, friend) = (connect(&app(&servers)).await, connect(&app(&servers)).await);
    let guard = try_once(&locks, "k").await.expect("free");
    assert_eq!(try_once(&friend, "k").await.expect_err("held").kind(), LockErrorKind::Contended);
    let admin = Client::connector().with_sasl(SaslOptions::digest_md5(USERS[0].0, USERS[0].1));
    let admin = admin.connect(&servers.hosts()).await.expect("a client");
    let [node] = &servers.names("closed/k")[..] else { panic!("one node") };
    for path in ["/closed", "/closed/k", &format!("/closed/k/{node}")] {
        let (acls, _) = admin.get_acl(path).await.expect("it may read");
        assert_eq!(acls, [Acl::new(Permission::ALL, AuthId::new("sasl", "app"))], "{path}");
    }
    for stranger in [url(&servers, "", ""), url(&servers, "other:else@", "&auth=sasl")] {
        let error = refused(&stranger).await;
        assert!(!error.is_temporary() && error.to_string().contains("no permission"), "{error}");
    }
    guard.release().await.expect("an answer");
    let guard = try_once(&friend, "k").await.expect("free");
    guard.release().await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_an_unknown_user_are_told() {
    let servers = builder().start();
    for user in ["app:wr0ng@", "nobody:s3cret@"] {
        let error = refused(&url(&servers, user, "&auth=sasl")).await;
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        let text = error.to_string();
        assert!(!error.is_temporary() && text.contains("refuses the user and the password"), "{error}");
        assert!(text.contains("JAAS") && !text.contains("wr0ng"), "{error}");
    }
}

/// A server without SASL users treats every client as anonymous. It reports this only when a node must belong to a
/// user.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_sasl_is_told() {
    let servers = ZooKeeperServers::start();
    // The error must come before the first lock, whether the directory exists or not.
    for there in [false, true] {
        let error = refused(&app(&servers)).await;
        assert!(!error.is_temporary(), "{error}");
        assert!(error.to_string().contains("set up SASL"), "there {there}: {error}");
        works_again(&connect(&url(&servers, "", "")).await, "k").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_sasl_is_told_from_one_that_refuses_the_password() {
    let servers = builder().setting("sessionRequireClientSASLAuth=true").start();
    for (user, expected) in [("", "it wants a user"), ("app:s3cret@", "or wants SASL (`?auth=sasl`)")] {
        let error = refused(&url(&servers, user, "")).await;
        assert!(!error.is_temporary() && error.to_string().contains(expected), "{error}");
    }
    works_again(&connect(&app(&servers)).await, "k").await;
}

/// Each connection of a session logs in again. If the password has become wrong, the requests fail with an error that
/// says so, and none waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_logs_in_again_after_a_restart() {
    let mut servers = builder().start();
    let locks = connect(&format!("{}&timeout=1s", app(&servers))).await;
    works_again(&locks, "k").await;
    servers.restart(0);
    servers.wait_ready(0);
    works_again(&locks, "k").await;
    servers.replace_users(&USERS[1..]);
    servers.restart(0);
    servers.wait_ready(0);
    let told = async || match try_once(&locks, "k").await {
        Ok(_) => panic!("a user who is gone"),
        Err(error) => {
            !error.is_temporary() && error.to_string().contains("refuses the user and the password")
        }
    };
    wait_until("the reason is told", PATIENCE, told).await;
    servers.replace_users(&USERS);
    servers.restart(0);
    servers.wait_ready(0);
    works_again(&locks, "k").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sasl_user_comes_over_tls() {
    let certificates = Certificates::new(&["localhost"]);
    let servers = builder().tls(&certificates, false).start();
    let at = |user: &str| {
        let place = servers.secure_url("localhost", "closed").replace("://", &format!("://{user}@"));
        format!("{place}?session_timeout=6s&auth=sasl&ca={}", certificates.file("ca.pem").display())
    };
    works_again(&connect(&at("app:s3cret,=%40")).await, "k").await;
    let error = refused(&at("app:wrong")).await;
    assert!(error.to_string().contains("refuses the user and the password"), "{error}");
}
