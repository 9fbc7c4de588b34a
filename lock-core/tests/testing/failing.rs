//! Tests of stores that fail.

use std::time::Duration;

use lock_core::testing::{StoreFault, TestLocks};
use lock_core::{LockError, LockErrorKind, LossReason, distributed_lock, strategy};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn so_many_attempts_fail() {
    let locks = TestLocks::new();
    locks.fail_next(2);
    for _ in 0..2 {
        let error = locks.lock("k").try_acquire().await.unwrap_err();
        assert!(error.is_unavailable() && error.is_temporary(), "{error}");
    }
    assert!(locks.lock("k").try_acquire().await.unwrap().is_some());
    // A strategy that waits survives the failures.
    locks.fail_next(2);
    locks.lock("k").wait(SECOND).run(async {}).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_takes_what_is_held_with_it() {
    let locks = TestLocks::new();
    let guard = locks.lock("k").ttl(SECOND).acquire().await.unwrap();
    locks.store_down();
    assert!(guard.is_held());
    assert!(locks.lock("other").try_acquire().await.unwrap_err().is_unavailable());
    let lost = tokio::time::timeout(2 * SECOND, guard.lost()).await;
    assert_eq!(lost, Ok(LossReason::Expired));
    locks.store_up();
    // The loss is reported a moment before the key is free, so this request waits.
    locks.lock("k").wait(SECOND).run(async {}).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn renewals_fail_alone() {
    let locks = TestLocks::new();
    let guard = locks.lock("k").ttl(SECOND).acquire().await.unwrap();
    tokio::time::sleep(3 * SECOND).await;
    assert!(guard.is_held(), "renewed");
    locks.fail_renewals();
    assert!(locks.lock("other").try_acquire().await.unwrap().is_some());
    tokio::time::timeout(2 * SECOND, guard.lost()).await.expect("lost with its lease");
}

#[tokio::test(start_paused = true)]
async fn releases_fail_alone_and_the_background_goes_on() {
    let locks = TestLocks::new();
    let guard = locks.lock("k").acquire().await.unwrap();
    locks.fail_releases();
    assert!(guard.release().await.unwrap_err().is_unavailable());
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    locks.store_up();
    locks.lock("k").wait(5 * SECOND).run(async {}).await.unwrap();
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "a test looks at the paused clock")]
async fn calls_take_their_time() {
    let locks = TestLocks::new();
    locks.delay(Duration::from_millis(20));
    let begun = tokio::time::Instant::now();
    let guard = locks.lock("k").acquire().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(20));
    guard.release().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(40));
    locks.store_up();
    locks.lock("k").run(async {}).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(40));
}

#[distributed_lock(key = "order:<id>", wait = "2s")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

/// Returns the error of a request with one attempt, and the result of a request that waits for up to two seconds. The
/// store fails for the first second of that wait.
async fn failing(fault: StoreFault) -> (LockError, Result<u64, LockError>) {
    let locks = TestLocks::new();
    locks.set_fault(fault);
    locks.fail_next(1);
    let error = locks.lock("order:7").strategy(strategy::fail_fast()).acquire().await.unwrap_err();
    locks.store_down();
    let waiting = tokio::spawn(locks.scope(ship(7)));
    tokio::time::sleep(SECOND).await;
    locks.store_up();
    (error, waiting.await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_store_fails_as_it_is_told_to() {
    use LockErrorKind::{NoQuorum, Unavailable};
    for (fault, kind, temporary) in [
        (StoreFault::Unreachable, Unavailable, true),
        (StoreFault::Unanswered, Unavailable, true),
        (StoreFault::NoQuorum, NoQuorum, true),
        (StoreFault::Refused, Unavailable, false),
    ] {
        let (error, waited) = failing(fault).await;
        assert_eq!((error.kind(), error.is_temporary()), (kind, temporary), "{fault:?}");
        assert_eq!(waited.is_ok(), temporary, "{fault:?}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_up_again_fails_as_by_default() {
    let locks = TestLocks::new();
    locks.set_fault(StoreFault::NoQuorum);
    locks.store_up();
    locks.store_down();
    assert_eq!(locks.lock("k").try_acquire().await.unwrap_err().kind(), LockErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_leaves_what_was_done() {
    let locks = TestLocks::new();
    let guard = locks.lock("k").acquire().await.unwrap();
    locks.set_fault(StoreFault::Unanswered);
    locks.fail_releases();
    assert!(guard.release().await.unwrap_err().is_unavailable());
    assert!(locks.lock("k").try_acquire().await.unwrap().is_some(), "it was free");

    locks.fail_next(1);
    assert!(locks.lock("other").try_acquire().await.unwrap_err().is_unavailable());
    locks.lock("other").wait(SECOND).run(async {}).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_process_has_a_way_of_its_own_to_the_store() {
    let locks = TestLocks::new();
    locks.store_down();
    locks.delay(SECOND);
    let elsewhere = locks.contend("k").await;
    tokio::time::sleep(3 * Duration::from_secs(3_600)).await;
    locks.store_up();
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none(), "it was renewed");
    locks.store_down();
    elsewhere.release().await;
    locks.store_up();
    assert!(locks.lock("k").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_asks_fails_too() {
    let locks = TestLocks::new();
    let _guard = locks.lock("k").acquire().await.unwrap();
    assert_eq!(locks.locks().await.unwrap().locks.len(), 1);
    locks.store_down();
    assert!(locks.locks().await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn a_ping_fails_while_the_store_is_down() {
    let locks = TestLocks::new();
    assert_eq!(locks.manager().ping().await.unwrap().serving, 1);
    locks.store_down();
    assert!(locks.manager().ping().await.unwrap_err().is_unavailable());
    locks.store_up();
    locks.manager().ping().await.unwrap();
}
