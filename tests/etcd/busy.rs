//! Members that are late but alive.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Released;
use lock_core::backend::{Ask, Attempt, Backend, etcd};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use lock_tests::{Bound, Etcd, PATIENCE, Proxy};
use tokio::task::JoinSet;

use crate::support::{LONG, connect, cycle, empty, ms};

const CALLS: usize = 1_000;

/// A member that stops for longer than its heartbeats may be late still has the calls under way. It answers them when
/// it continues.
#[tokio::test]
async fn calls_under_way_are_answered_once_the_member_goes_on() {
    let etcd = Etcd::start();
    let url = format!("{}?timeout=60s", etcd.url());
    let store = etcd::Etcd::connect(&url).await.expect("the cluster takes locks");
    let (store, claims) = (Arc::new(store), Claims::new().expect("random bytes"));
    etcd.stop(0);
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        let key = Key::new(&format!("k{number}")).expect("a key");
        let (store, claim) = (Arc::clone(&store), claims.exclusive(&key, LONG));
        calls.spawn(async move {
            let attempt = store.acquire(&claim, Ask::Try).await.expect("it was sent, and is answered");
            assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
            store.release(&claim, None).await.expect("an answer")
        });
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    etcd.cont(0);
    while let Some(released) = calls.join_next().await {
        assert_eq!(released.expect("no panic"), Released::Released);
    }
    empty(&etcd, PATIENCE).await;
}

/// A client stays with a member whose answers are all late.
#[tokio::test]
async fn a_member_that_is_slow_is_not_left() {
    let etcd = Etcd::start();
    let proxies = [Proxy::to(etcd.address(0)), Proxy::to(etcd.address(0))];
    let [one, other] = proxies.each_ref().map(Proxy::port);
    let locks = connect(&format!("etcd://127.0.0.1:{one},127.0.0.1:{other}?timeout=60s")).await;
    cycle(&locks, "k").await;
    proxies.iter().for_each(|proxy| proxy.delay(ms(300)));
    let opened = || proxies.iter().map(|proxy| proxy.traffic().opened).sum::<u32>();
    let (before, since) = (opened(), Bound::new(PATIENCE));
    while since.elapsed() < Duration::from_secs(6) {
        cycle(&locks, "k").await;
    }
    assert_eq!(opened(), before, "connections");
}
