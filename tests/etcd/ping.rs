//! Pings of etcd clusters.

use lock_tests::Etcd;

use crate::pings::{refuses, serves};
use crate::support::{connect, manager};

#[tokio::test]
async fn a_member_that_stands_still_or_dies_refuses_and_one_that_is_back_serves() {
    let mut etcd = Etcd::start();
    let (locks, address) = (manager(&etcd).await, etcd.address(0).to_string());
    let ping = serves(&locks).await;
    assert_eq!((ping.servers, ping.serving, ping.is_degraded()), (1, 1, false), "{ping}");
    etcd.stop(0);
    refuses(&locks, &address).await;
    etcd.cont(0);
    serves(&locks).await;
    etcd.kill9(0);
    refuses(&locks, &address).await;
    etcd.restart(0);
    serves(&locks).await;
}

/// A single member still answers, but no majority confirms its answer.
#[tokio::test]
async fn a_majority_must_confirm_the_answer() {
    let etcd = Etcd::builder().members(3).start();
    let locks = connect(&format!("{}?timeout=500ms", etcd.url_of(0))).await;
    serves(&locks).await;
    etcd.stop(1);
    serves(&locks).await;
    etcd.stop(2);
    refuses(&locks, &etcd.address(0).to_string()).await;
    etcd.cont(1);
    serves(&locks).await;
}
