//! Tests requests for several permits of a semaphore at once, and the number of free permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_core::backend::Capability;
use lock_core::{LockErrorKind, LockManager, LockRequest, strategy};
use tokio::time::sleep;

use crate::millis;
use crate::scripted::Scripted;

fn take(locks: &LockManager, permits: u32, of: u32) -> LockRequest {
    locks.semaphore("k", of).take(permits).strategy(strategy::retry().within(millis(60_000)))
}

async fn free(locks: &LockManager, of: u32) -> u32 {
    locks.semaphore("k", of).available().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_free_permits_are_counted() {
    let locks = LockManager::in_memory();
    assert_eq!(free(&locks, 10).await, 10);
    let three = take(&locks, 3, 10).acquire().await.unwrap();
    let one = take(&locks, 1, 10).acquire().await.unwrap();
    assert_eq!(free(&locks, 10).await, 6);
    assert!(take(&locks, 7, 10).try_acquire().await.unwrap().is_none());
    drop(take(&locks, 6, 10).try_acquire().await.unwrap().expect("enough"));
    one.release().await.unwrap();
    three.release().await.unwrap();
    assert_eq!(free(&locks, 10).await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_number_that_could_never_be_granted_is_refused_before_any_request() {
    let (locks, store) = Scripted::manager(|_| {});
    for request in [
        locks.semaphore("k", 3).take(0),
        locks.semaphore("k", 3).take(4),
        locks.semaphore("k", 1_000).take(101),
        locks.lock("k").take(2),
        locks.read("k").take(2),
        locks.all(["a", "b"]).take(2),
    ] {
        assert_eq!(request.acquire().await.unwrap_err().kind(), LockErrorKind::InvalidRequest);
    }
    for request in [locks.lock("k"), locks.fair("k")] {
        let error = request.available().await.unwrap_err();
        assert!(
            error.kind() == LockErrorKind::InvalidRequest && error.to_string().contains("`semaphore`"),
            "{error}"
        );
    }
    assert!(store.script().asked.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_do_it_is_named() {
    let one_each = |can: &mut Capability| (can.several_permits, can.lists) = (false, false);
    let (locks, store) = Scripted::manager(one_each);
    for error in [
        take(&locks, 2, 3).acquire().await.unwrap_err(),
        take(&locks, 2, 3).check().unwrap_err(),
        locks.semaphore("k", 3).available().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), LockErrorKind::Unsupported);
        assert!(error.to_string().contains("memory store"), "{error}");
    }
    assert!(store.tries().is_empty());
    drop(take(&locks, 1, 3).acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_key_in_another_use_has_no_such_permits() {
    let locks = LockManager::in_memory();
    let held = locks.semaphore("k", 3).acquire().await.unwrap();
    let error = locks.semaphore("k", 4).available().await.unwrap_err();
    assert!(error.to_string().contains("3 permits") && error.to_string().contains("4 permits"), "{error}");
    drop(held);
    let held = locks.lock("k").acquire().await.unwrap();
    assert_eq!(locks.semaphore("k", 3).available().await.unwrap_err().kind(), LockErrorKind::InvalidRequest);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_enters_what_its_task_has_and_waits_for_no_more() {
    let locks = LockManager::in_memory();
    let inner = locks.clone();
    let outer = take(&locks, 2, 3).run(async move {
        for permits in [1, 2] {
            take(&inner, permits, 3).run(async { assert_eq!(free(&inner, 3).await, 1) }).await.unwrap();
        }
        take(&inner, 3, 3).run(async {}).await.unwrap_err()
    });
    assert_eq!(outer.await.unwrap().kind(), LockErrorKind::Upgrade);
    assert_eq!(free(&locks, 3).await, 3);
}

/// If permits were acquired one by one, two tasks that need two of three permits could each hold one and wait for the
/// other.
#[tokio::test(start_paused = true)]
async fn those_who_need_several_never_wait_for_each_other() {
    let (locks, in_use) = (LockManager::in_memory(), Arc::new(AtomicU32::new(0)));
    let task = |permits: u32| {
        let (request, in_use) = (take(&locks, permits, 5), Arc::clone(&in_use));
        async move {
            for round in 0..20 {
                let guard = request.clone().acquire().await.unwrap();
                assert!(in_use.fetch_add(permits, Ordering::SeqCst) + permits <= 5);
                sleep(millis(1 + round % 3)).await;
                in_use.fetch_sub(permits, Ordering::SeqCst);
                if round % 2 == 0 {
                    guard.release().await.unwrap();
                }
            }
        }
    };
    let tasks: Vec<_> = [3, 2, 4, 1, 5, 1, 2, 3].map(|permits| tokio::spawn(task(permits))).into();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(free(&locks, 5).await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_many_is_not_starved_by_small_ones() {
    let locks = LockManager::in_memory();
    let [first, second] = [take(&locks, 1, 3), take(&locks, 1, 3)];
    let (first, second) = (first.acquire().await.unwrap(), second.acquire().await.unwrap());
    let large = tokio::spawn(take(&locks, 3, 3).acquire());
    sleep(millis(1)).await;
    let small = tokio::spawn(take(&locks, 1, 3).acquire());
    sleep(millis(1)).await;
    assert!(
        take(&locks, 1, 3).try_acquire().await.unwrap().is_none(),
        "one is free, and the large one is next"
    );
    first.release().await.unwrap();
    sleep(millis(1_000)).await;
    assert!(!large.is_finished() && !small.is_finished());
    second.release().await.unwrap();
    let large = large.await.unwrap().unwrap();
    sleep(millis(1_000)).await;
    assert!(!small.is_finished());
    drop(large);
    drop(small.await.unwrap().unwrap());
    // If a waiter gives up, the smaller requests behind it continue.
    let holder = take(&locks, 1, 3).acquire().await.unwrap();
    let large = tokio::spawn(take(&locks, 3, 3).acquire());
    sleep(millis(1)).await;
    let small = tokio::spawn(take(&locks, 1, 3).acquire());
    sleep(millis(1)).await;
    large.abort();
    drop(small.await.unwrap().unwrap());
    drop(holder);
}

#[tokio::test(start_paused = true)]
async fn all_permits_of_a_lock_are_renewed_and_lost_together() {
    let locks = LockManager::in_memory();
    let held = locks.semaphore("k", 3).take(2).ttl(millis(300)).acquire().await.unwrap();
    sleep(millis(5_000)).await;
    assert!(held.is_held());
    assert_eq!(free(&locks, 3).await, 1);
    drop(held);
    let lost = locks.semaphore("k", 3).take(3).ttl(millis(300)).renew(false).acquire().await.unwrap();
    sleep(millis(400)).await;
    assert!(!lost.is_held());
    assert_eq!(free(&locks, 3).await, 3);
}
