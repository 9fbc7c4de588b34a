//! The cluster behind `etcd grpc-proxy`.

use std::time::Duration;

use lock_core::LockManager;
use lock_tests::{Bound, Etcd, PATIENCE, wait_until};

use crate::support::{LONG, connect, cycle, empty, manager, ms};

/// A lock and the place of a waiter are both renewed through the proxy. If the machine stops for as long as a place
/// lives, the waiter may lose its place once.
#[tokio::test]
async fn what_is_held_and_who_waits_is_kept_alive_through_a_proxy() {
    const ROUNDS: usize = 4;
    let etcd = Etcd::start();
    let proxy = etcd.grpc_proxy();
    let (locks, direct) = (connect(&proxy.url()).await, manager(&etcd).await);
    cycle(&locks, "free").await;
    for _ in 0..ROUNDS {
        if are_kept_alive(&etcd, &locks, &direct).await {
            return;
        }
    }
    panic!("in {ROUNDS} rounds, each time the place of the waiter was lost");
}

/// Returns whether a waiter kept its place for three times as long as a place lives without heartbeats.
async fn are_kept_alive(etcd: &Etcd, locks: &LockManager, direct: &LockManager) -> bool {
    const TTL: Duration = Duration::from_secs(4);
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
    wait_until("one of both is served", PATIENCE, async || next.is_finished() || last.is_finished()).await;
    let in_order = next.is_finished();
    for waiter in if in_order { [next, last] } else { [last, next] } {
        let guard = waiter.await.expect("no panic").expect("its turn has come");
        guard.release().await.expect("an answer");
    }
    empty(etcd, PATIENCE).await;
    in_order
}
