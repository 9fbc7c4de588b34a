//! Tests lost and late requests, answers and renewals, on a store that fails on demand.

use std::sync::Arc;
use std::task::Poll;

use lock_core::backend::memory::Memory;
use lock_core::testkit::{Fault, Flaky, FlakyControl, Operation};
use lock_core::{LockErrorKind, LockManager, LossReason, ShutdownReport, strategy};
use tokio::time::Instant;

use crate::{is_free, millis, patient};

/// Returns a manager on a store that can fail, and another on the same store that cannot.
fn flaky() -> (LockManager, FlakyControl, LockManager) {
    let store = Memory::new();
    let (flaky, control) = Flaky::new(store.clone());
    let locks = LockManager::builder(flaky).build().unwrap();
    (locks, control, LockManager::builder(store).build().unwrap())
}

const FAULTS: [Fault; 5] =
    [Fault::Refuse, Fault::LoseRequest, Fault::LoseAnswer, Fault::Hang, Fault::HangAnswer];

async fn poll_once(future: &mut std::pin::Pin<Box<impl Future>>) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// Waits until another manager can acquire `key`. Returns how long that took.
async fn free_after(other: &LockManager, key: &str) -> std::time::Duration {
    let start = Instant::now();
    patient(other, key, millis(120_000)).acquire().await.unwrap().release().await.unwrap();
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_point_leaves_nothing() {
    for fault in FAULTS {
        for polls in 0..5 {
            let (locks, control, other) = flaky();
            control.fail_next(Operation::Acquire, fault, 1);
            let mut acquire = Box::pin(locks.lock("k").ttl(millis(60_000)).acquire());
            for _ in 0..polls {
                if poll_once(&mut acquire).await {
                    break;
                }
                tokio::time::advance(millis(40)).await;
            }
            drop(acquire);
            control.heal();
            let after = free_after(&other, "k").await;
            assert!(after < millis(1_000), "{fault:?} after {polls} polls: {after:?}");
            assert_eq!(locks.held(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_whose_answer_is_lost_tries_again_as_another_owner() {
    for fault in [Fault::Refuse, Fault::LoseRequest, Fault::LoseAnswer] {
        let (locks, control, other) = flaky();
        control.fail_next(Operation::Acquire, fault, 3);
        let start = Instant::now();
        let guard = locks.lock("k").ttl(millis(60_000)).acquire().await.unwrap();
        assert!(start.elapsed() < millis(2_000), "{fault:?} {:?}", start.elapsed());
        // Each abandoned owner is released. These releases do not free the key of the current owner.
        tokio::time::sleep(millis(15_000)).await;
        assert!(guard.is_held() && !is_free(&other, "k").await);
        drop(guard);
        assert!(free_after(&other, "k").await < millis(100));
    }
}

#[tokio::test(start_paused = true)]
async fn fail_fast_and_skip_report_a_store_that_is_down() {
    let (locks, control, _) = flaky();
    control.fail_always(Operation::Acquire, Fault::Refuse);
    for result in [
        locks.lock("k").strategy(strategy::fail_fast()).acquire().await,
        locks.lock("k").strategy(strategy::skip()).acquire().await,
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        assert!(!error.is_skipped() && error.is_temporary() && error.is_unavailable());
    }
    assert_eq!(locks.lock("k").try_acquire().await.unwrap_err().kind(), LockErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_their_bound_for_a_store_that_is_down() {
    let (locks, control, _) = flaky();
    control.fail_always(Operation::Acquire, Fault::Refuse);
    let start = Instant::now();
    let error = patient(&locks, "k", millis(400)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    assert!(start.elapsed() < millis(500), "{:?}", start.elapsed());
    // A wait without a limit survives an outage, because the work must be done.
    let waiting = tokio::spawn(locks.lock("k").strategy(strategy::wait()).acquire());
    tokio::time::sleep(millis(300_000)).await;
    assert!(!waiting.is_finished());
    control.heal();
    drop(waiting.await.unwrap().unwrap());
}

/// If such requests were released, releases of locks that were never acquired would accumulate during an outage.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_never_sent_is_not_released() {
    let (locks, control, _) = flaky();
    control.fail_always(Operation::Acquire, Fault::Refuse);
    patient(&locks, "k", millis(2_000)).acquire().await.unwrap_err();
    tokio::time::sleep(millis(20_000)).await;
    assert_eq!(control.calls(Operation::Release), 0);
    assert!(control.calls(Operation::Acquire) > 5);
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_releases_that_are_only_repeated_to_be_safe() {
    let (locks, control, _) = flaky();
    control.fail_next(Operation::Acquire, Fault::LoseRequest, 1);
    locks.lock("k").ttl(millis(60_000)).strategy(strategy::fail_fast()).acquire().await.unwrap_err();
    tokio::time::sleep(millis(10)).await;
    assert!(control.calls(Operation::Release) > 0);
    let start = Instant::now();
    assert_eq!(locks.shutdown(millis(30_000)).await.unanswered, 0);
    assert!(start.elapsed() < millis(100), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_given_back_until_the_store_answers() {
    for fault in FAULTS {
        let (locks, control, other) = flaky();
        let guard = locks.lock("k").ttl(millis(60_000)).acquire().await.unwrap();
        control.fail_next(Operation::Release, fault, 4);
        drop(guard);
        tokio::time::sleep(millis(100)).await;
        control.heal();
        let after = free_after(&other, "k").await;
        assert!(after < millis(1_000), "{fault:?}: {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_dropped_at_any_point_goes_on_in_the_background() {
    for fault in FAULTS {
        for polls in 0..4 {
            let (locks, control, other) = flaky();
            let guard = locks.lock("k").ttl(millis(60_000)).acquire().await.unwrap();
            control.fail_next(Operation::Release, fault, 1);
            let mut release = Box::pin(guard.release());
            for _ in 0..polls {
                if poll_once(&mut release).await {
                    break;
                }
                tokio::time::advance(millis(40)).await;
            }
            drop(release);
            control.heal();
            let after = free_after(&other, "k").await;
            assert!(after < millis(1_000), "{fault:?} after {polls} polls: {after:?}");
            assert_eq!(locks.held(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_does_not_mask_the_result_of_the_body() {
    for fault in FAULTS {
        let (locks, control, _) = flaky();
        control.fail_always(Operation::Release, fault);
        let start = Instant::now();
        assert_eq!(locks.lock("k").run(async { 42 }).await.unwrap(), 42);
        assert!(start.elapsed() <= millis(1_001), "{fault:?} held the answer for {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_that_fail_for_less_than_the_lease_are_made_up_for() {
    for fault in FAULTS {
        let (locks, control, other) = flaky();
        let guard = locks.lock("k").ttl(millis(3_000)).acquire().await.unwrap();
        for _ in 0..10 {
            control.fail_always(Operation::Renew, fault);
            tokio::time::sleep(millis(1_500)).await;
            control.heal();
            tokio::time::sleep(millis(1_500)).await;
            guard.check().unwrap();
            assert!(!is_free(&other, "k").await, "{fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_that_stay_away_endanger_first_and_then_lose() {
    for fault in [Fault::Refuse, Fault::LoseRequest, Fault::Hang] {
        let (locks, control, other) = flaky();
        let guard = locks.lock("k").ttl(millis(3_000)).acquire().await.unwrap();
        control.fail_always(Operation::Renew, fault);
        let start = Instant::now();
        let next = tokio::spawn(async move {
            let guard = patient(&other, "k", millis(60_000)).acquire().await.unwrap();
            (Instant::now(), guard)
        });
        tokio::time::sleep(millis(1_500)).await;
        tokio::time::sleep(millis(700)).await;
        assert!(guard.is_endangered(), "{fault:?}");
        assert!(guard.is_held());
        assert_eq!(guard.lost().await, LossReason::Expired);
        let told = Instant::now();
        assert!(told - start < millis(3_000) && told - start > millis(2_900), "{fault:?} {:?}", told - start);
        let (taken, _guard) = next.await.unwrap();
        assert!(told < taken, "{fault:?}: told before anyone else has it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_at_the_deadline_though_the_store_hangs() {
    let (locks, control, _) = flaky();
    let alive = Arc::new(());
    let witness = Arc::downgrade(&alive);
    let request = locks.lock("k").ttl(millis(2_000));
    let running = tokio::spawn(request.run(async move {
        let _alive = alive;
        std::future::pending::<()>().await;
    }));
    tokio::time::sleep(millis(1)).await;
    control.fail_always(Operation::Renew, Fault::Hang);
    control.fail_always(Operation::Release, Fault::Hang);
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.loss_reason(), Some(LossReason::Expired));
    assert!(witness.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn shutdown_says_which_releases_were_not_answered() {
    let (locks, control, _) = flaky();
    let guard = locks.lock("k").ttl(millis(60_000)).acquire().await.unwrap();
    control.fail_always(Operation::Release, Fault::Hang);
    drop(guard);
    let start = Instant::now();
    let report = locks.shutdown(millis(500)).await;
    assert_eq!((report.revoked.len(), report.unanswered), (0, 1));
    assert!(start.elapsed() < millis(1_600), "{:?}", start.elapsed());
}

/// Starts a shutdown while an `operation` hangs, checks that the shutdown waits for it, and lets the operation
/// continue.
async fn shutdown_during(
    locks: &LockManager,
    control: &FlakyControl,
    operation: Operation,
) -> ShutdownReport {
    while control.hanging(operation) == 0 {
        tokio::task::yield_now().await;
    }
    let mut ending = std::pin::pin!(locks.shutdown(millis(5_000)));
    assert!(tokio::time::timeout(millis(100), &mut ending).await.is_err(), "it does not wait");
    control.heal();
    ending.await
}

/// A shutdown begins while a request is in flight. No body begins after that, and no key stays locked.
#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_requests_that_are_under_way() {
    for fault in [Fault::Hang, Fault::HangAnswer] {
        let (locks, control, other) = flaky();
        control.fail_next(Operation::Acquire, fault, 1);
        let body = async { panic!("the body began after the shutdown") };
        let running = tokio::spawn(locks.lock("k").ttl(millis(60_000)).run(body));
        assert_eq!(shutdown_during(&locks, &control, Operation::Acquire).await.unanswered, 0, "{fault:?}");
        assert_eq!(running.await.unwrap().unwrap_err().kind(), LockErrorKind::ShuttingDown);
        assert!(is_free(&other, "k").await, "{fault:?}");
    }
}

/// If a grant is handed off to a request for a longer lease, the grant is renewed first. The shutdown begins during
/// that renewal.
#[tokio::test(start_paused = true)]
async fn no_body_begins_on_a_grant_that_was_handed_off_before_a_shutdown() {
    for fault in [Fault::Hang, Fault::HangAnswer] {
        let (locks, control, other) = flaky();
        let first = locks.lock("k").ttl(millis(6_000)).acquire().await.unwrap();
        let body = async { panic!("the body began after the shutdown") };
        let request = patient(&locks, "k", millis(60_000)).ttl(millis(60_000));
        let running = tokio::spawn(request.run(body));
        tokio::time::sleep(millis(10)).await;
        control.fail_next(Operation::Renew, fault, 1);
        first.release().await.unwrap();
        let report = shutdown_during(&locks, &control, Operation::Renew).await;
        assert_eq!((report.revoked.len(), report.unanswered), (0, 0), "{fault:?}");
        assert_eq!(running.await.unwrap().unwrap_err().kind(), LockErrorKind::ShuttingDown);
        assert!(is_free(&other, "k").await, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_extend_that_is_answered_after_the_loss_is_no_success() {
    let (locks, control, _) = flaky();
    let guard = locks.lock("k").ttl(millis(300)).renew(false).acquire().await.unwrap();
    control.fail_next(Operation::Renew, Fault::HangAnswer, 1);
    let extend = guard.extend(millis(5_000));
    let heal = async {
        tokio::time::sleep(millis(400)).await;
        control.heal();
    };
    let (extended, ()) = tokio::join!(extend, heal);
    assert!(extended.unwrap_err().is_lost());
}

/// The answer to an extend was late or lost, so the store may have the longer lease.
#[tokio::test(start_paused = true)]
async fn a_release_goes_on_for_as_long_as_the_store_may_have_the_grant() {
    let (locks, control, other) = flaky();
    let guard = locks.lock("k").ttl(millis(60_000)).acquire().await.unwrap();
    guard.extend(millis(100)).await.unwrap();
    control.fail_always(Operation::Release, Fault::LoseRequest);
    drop(guard);
    tokio::time::sleep(millis(5_000)).await;
    control.heal();
    assert!(free_after(&other, "k").await < millis(1_100));
}

#[tokio::test(start_paused = true)]
async fn min_hold_counts_from_the_grant_also_when_the_release_is_late() {
    let (locks, control, other) = flaky();
    let start = Instant::now();
    let guard = locks.lock("k").ttl(millis(60_000)).min_hold(millis(10_000)).acquire().await.unwrap();
    control.fail_always(Operation::Release, Fault::LoseRequest);
    drop(guard);
    tokio::time::sleep(millis(8_000)).await;
    control.heal();
    free_after(&other, "k").await;
    assert!(start.elapsed() >= millis(10_000) && start.elapsed() < millis(10_500), "{:?}", start.elapsed());
}

/// The waiters of this process are notified only when the store has answered the release.
#[tokio::test(start_paused = true)]
async fn a_dropped_guard_wakes_the_next_waiter_when_the_key_is_free() {
    let (locks, control, _) = flaky();
    let guard = locks.lock("k").ttl(millis(60_000)).acquire().await.unwrap();
    let slow = strategy::retry()
        .within(millis(60_000))
        .backoff(strategy::Backoff::exponential(millis(20_000), millis(20_000)));
    let waiting = tokio::spawn(locks.lock("k").strategy(slow).acquire());
    tokio::time::sleep(millis(1)).await;
    control.fail_next(Operation::Release, Fault::HangAnswer, 1);
    drop(guard);
    tokio::time::sleep(millis(100)).await;
    let start = Instant::now();
    control.heal();
    drop(waiting.await.unwrap().unwrap());
    assert!(start.elapsed() < millis(5), "{:?}", start.elapsed());
}
