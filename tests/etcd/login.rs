//! Users, their permissions, and logins that expire.

use lock_core::testkit::names;
use lock_core::{LockErrorKind, LockManager};
use lock_tests::{Etcd, Proxy};

use crate::support::{LONG, connect, cycle, ms, refused, try_once};

/// Returns a cluster with the users root and `app`. The user `app` may use keys that begin with `shop:`.
pub(crate) fn with_users(ttl: u32) -> Etcd {
    let etcd = Etcd::builder().argument(&format!("--auth-token-ttl={ttl}")).start();
    for command in [
        &["user", "add", "root:s3cret"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "app:s3cret@/"],
        &["role", "add", "locks"],
        &["role", "grant-permission", "locks", "readwrite", "shop:", "--prefix=true"],
        &["user", "grant-role", "app", "locks"],
        &["auth", "enable"],
    ] {
        etcd.ctl(command);
    }
    etcd
}

#[tokio::test]
async fn a_user_locks_what_its_role_allows() {
    let etcd = with_users(300);
    let locks = connect(&etcd.url_for("app", "s3cret%40%2F")).await;
    cycle(&locks, "shop:k").await;
    let guard = locks.all(["shop:a", "shop:b"]).ttl(LONG).acquire().await.expect("allowed");
    guard.release().await.expect("an answer");
    let error = try_once(&locks, "other:k").await.expect_err("not allowed");
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    assert!(error.to_string().contains("grant-permission") && !error.is_temporary(), "{error}");
}

/// The locks of this user work without a right to the key of pings.
#[tokio::test]
async fn a_ping_without_the_right_to_write_only_reads() {
    let etcd = with_users(300);
    let locks = connect(&etcd.url_for("app", "s3cret%40%2F")).await;
    let ping = locks.ping().await.expect("it serves");
    assert!(ping.is_degraded() && ping.to_string().contains("`lock:ping`"), "{ping}");
    let grant = ["--user", "root:s3cret", "role", "grant-permission", "locks", "readwrite", "lock:ping"];
    etcd.ctl(&grant);
    let ping = locks.ping().await.expect("it serves");
    assert!(!ping.is_degraded(), "{ping}");
}

/// A member that has just started, or has only a fraction of a core, accepts connections before it answers.
#[tokio::test]
async fn a_member_that_greets_late_is_waited_for() {
    let etcd = Etcd::start();
    let proxy = Proxy::to(etcd.address(0));
    let url = format!("etcd://127.0.0.1:{}", proxy.port());
    let connecting = async move { LockManager::connect(&url).await };
    let locks = Proxy::greeting_late(std::slice::from_ref(&proxy), ms(3_000), connecting).await;
    cycle(&locks.expect("the member has answered"), "k").await;
}

/// A name may resolve to several members, and to servers that have ended. The port of the URL does not matter here.
#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    let etcd = Etcd::start();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    names::lead("several.test", &[silent.local_addr().expect("an address"), nobody, etcd.address(0)]);
    cycle(&connect("etcd://several.test").await, "k").await;
}

#[tokio::test]
async fn a_wrong_login_is_told_and_not_shown() {
    let etcd = with_users(300);
    for (url, text) in [
        (etcd.url_for("app", "wr0ng"), "refuses the user or the password"),
        (etcd.url_for("nobody", "wr0ng"), "refuses the user or the password"),
        (etcd.url(), "wants a user"),
    ] {
        let error = refused(&url).await;
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        assert!(error.to_string().contains(text) && !error.is_temporary(), "{error}");
        assert!(!format!("{error:?}").contains("wr0ng"), "{error:?}");
    }
    let open = Etcd::start();
    let error = refused(&open.url_for("app", "wr0ng")).await;
    assert!(error.to_string().contains("leave the user out"), "{error}");
}

/// If the token of a login expires, or the member forgets it, the client logs in again. No caller notices.
#[tokio::test]
async fn a_login_that_runs_out_is_renewed() {
    let mut etcd = with_users(1);
    let locks = connect(&etcd.url_for("app", "s3cret%40%2F")).await;
    let held = locks.lock("shop:held").ttl(ms(12_000)).acquire().await.expect("free");
    for _ in 0..8 {
        tokio::time::sleep(ms(1_700)).await;
        cycle(&locks, "shop:k").await;
        assert!(held.is_held(), "it is renewed");
    }
    // The lock has been held for longer than its lease.
    held.release().await.expect("an answer");
    etcd.restart(0);
    crate::support::works_again(&locks, "shop:k").await;
}
