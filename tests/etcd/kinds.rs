//! Every kind of lock, used through a manager.

use lock_core::LockErrorKind;
use lock_tests::{Etcd, PATIENCE, wait_until};

use crate::outside::{every_call_outside, refused_outside};
use crate::support::{LONG, SHORTEST, empty, manager};

#[tokio::test]
async fn fair_locks_are_served_in_the_order_of_arrival_over_managers() {
    let etcd = Etcd::start();
    let managers = [manager(&etcd).await, manager(&etcd).await, manager(&etcd).await];
    let guard = managers[0].fair("k").ttl(LONG).acquire().await.expect("free");
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..9 {
        // With a limit of waiters, each waiter has its own place.
        let request = managers[number % 3].fair("k").ttl(LONG).wait(LONG).max_waiters(100);
        let sender = sender.clone();
        tokio::spawn(async move {
            let guard = request.acquire().await.expect("served");
            sender.send(number).expect("somebody listens");
            guard.release().await.expect("an answer");
        });
        wait_until("it stands in line", PATIENCE, async || etcd.keys().len() == number + 2).await;
    }
    guard.release().await.expect("an answer");
    for number in 0..9 {
        assert_eq!(tokio::time::timeout(PATIENCE, order.recv()).await.expect("in time"), Some(number));
    }
    empty(&etcd, PATIENCE).await;
}

#[tokio::test]
async fn readers_share_and_a_writer_does_not() {
    let etcd = Etcd::start();
    let (one, two) = (manager(&etcd).await, manager(&etcd).await);
    let (first, second) = (one.read("k").ttl(LONG), two.read("k").ttl(LONG));
    let (first, second) = (first.acquire().await.expect("shared"), second.acquire().await.expect("shared"));
    let writer = tokio::spawn(two.write("k").ttl(LONG).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 3).await;
    assert!(one.read("k").ttl(LONG).try_acquire().await.expect("an answer").is_none(), "behind the writer");
    first.release().await.expect("an answer");
    second.release().await.expect("an answer");
    let writer = tokio::time::timeout(PATIENCE, writer).await.expect("in time").expect("no panic");
    let writer = writer.expect("alone");
    let reader = tokio::spawn(one.read("k").ttl(LONG).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 2).await;
    let shared = writer.downgrade().await.expect("still held");
    let reader = tokio::time::timeout(PATIENCE, reader).await.expect("told").expect("no panic");
    reader.expect("beside").release().await.expect("an answer");
    shared.release().await.expect("an answer");
    empty(&etcd, PATIENCE).await;
}

#[tokio::test]
async fn a_semaphore_admits_so_many_and_wakes_the_next() {
    let etcd = Etcd::start();
    let (one, two) = (manager(&etcd).await, manager(&etcd).await);
    let first = one.semaphore("k", 2).ttl(LONG).acquire().await.expect("free");
    let second = two.semaphore("k", 2).ttl(LONG).acquire().await.expect("free");
    let third = tokio::spawn(one.semaphore("k", 2).ttl(LONG).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 3).await;
    // The first holder releases, and not the one directly before the waiter.
    first.release().await.expect("an answer");
    let third =
        tokio::time::timeout(PATIENCE, third).await.expect("told").expect("no panic").expect("served");
    let error = two.lock("k").ttl(LONG).acquire().await.expect_err("another kind");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    second.release().await.expect("an answer");
    third.release().await.expect("an answer");
    empty(&etcd, PATIENCE).await;
}

#[tokio::test]
async fn several_keys_are_renewed_together() {
    let etcd = Etcd::start();
    let (one, two) = (manager(&etcd).await, manager(&etcd).await);
    let guard = one.all(["a", "b", "c"]).ttl(SHORTEST).acquire().await.expect("free");
    tokio::time::sleep(SHORTEST * 2).await;
    assert!(guard.is_held(), "renewed");
    assert!(two.lock("b").ttl(LONG).try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("an answer");
    empty(&etcd, PATIENCE).await;
}

#[tokio::test]
async fn what_there_is_not_is_named() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let error = locks.latch("ready").set(2).await.expect_err("no latches");
    assert_eq!(error.kind(), LockErrorKind::Unsupported);
    assert!(error.to_string().contains("latch"), "{error}");
}

/// A plain executor polls each call. The call works, or its error says what is missing.
#[test]
fn no_call_panics_outside_of_tokio() {
    let etcd = Etcd::start();
    every_call_outside(&etcd.url());
    refused_outside(lock_core::backend::etcd::Etcd::connect(&etcd.url()));
}
