//! Members that are late, and not dead.

use std::time::Duration;

use lock_tests::{Bound, Etcd, PATIENCE, Proxy};

use crate::support::{connect, cycle, empty, ms, try_once};

const CALLS: usize = 50;

/// A member that stands still for longer than its heartbeats may be late has not lost the calls that are under way: they
/// were sent, and it answers them once it goes on.
#[tokio::test]
async fn calls_under_way_are_answered_once_the_member_goes_on() {
    let etcd = Etcd::start();
    let locks = connect(&format!("{}?timeout=60s", etcd.url())).await;
    // Each call begins with a transaction that takes a lease of these.
    let mut before = Vec::new();
    for number in 0..CALLS {
        before.push(try_once(&locks, &format!("before{number}")).await.expect("free"));
    }
    for guard in before {
        guard.release().await.expect("an answer");
    }
    etcd.stop(0);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..CALLS {
        let locks = locks.clone();
        calls.spawn(async move { try_once(&locks, &format!("k{number}")).await?.release().await });
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    etcd.cont(0);
    while let Some(released) = calls.join_next().await {
        released.expect("no panic").expect("the key is free");
    }
    empty(&etcd, PATIENCE).await;
}

/// A member whose answers are all late stays the one that is asked.
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
