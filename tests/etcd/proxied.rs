//! The cluster behind `etcd grpc-proxy`.

use std::time::Duration;

use lock_tests::{Bound, Etcd, PATIENCE, wait_until};

use crate::support::{LONG, connect, cycle, empty, manager, ms};

/// A lock is renewed through the proxy, and so is the place of a waiter.
#[tokio::test]
async fn what_is_held_and_who_waits_is_kept_alive_through_a_proxy() {
    const TTL: Duration = Duration::from_secs(4);
    let etcd = Etcd::start();
    let proxy = etcd.grpc_proxy();
    let (locks, direct) = (connect(&proxy.url()).await, manager(&etcd).await);
    cycle(&locks, "free").await;
    let held = locks.fair("k").ttl(TTL).acquire().await.expect("free");
    let next = locks.fair("k").ttl(LONG).wait(LONG).max_waiters(9);
    let next = tokio::spawn(next.acquire());
    wait_until("one waits", PATIENCE, async || etcd.keys().len() == 2).await;
    let last = tokio::spawn(direct.fair("k").ttl(LONG).wait(LONG).acquire());
    wait_until("another one waits", PATIENCE, async || etcd.keys().len() == 3).await;
    let since = Bound::new(PATIENCE);
    while since.elapsed() < TTL * 3 {
        assert!(held.is_held(), "after {:?}", since.elapsed());
        tokio::time::sleep(ms(50)).await;
    }
    assert!(!next.is_finished() && !last.is_finished());
    held.release().await.expect("an answer");
    let next = next.await.expect("no panic").expect("the place was kept");
    assert!(!last.is_finished(), "overtaken");
    next.release().await.expect("an answer");
    last.await.expect("no panic").expect("the last").release().await.expect("an answer");
    empty(&etcd, PATIENCE).await;
}
