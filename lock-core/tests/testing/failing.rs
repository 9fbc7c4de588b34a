//! Stores that fail.

use std::time::Duration;

use lock_core::LossReason;
use lock_core::testing::TestLocks;

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
    // A strategy that waits gets over it.
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
    assert_eq!(guard.lost().await, LossReason::Expired);
    locks.store_up();
    // A loss is told a moment before the key is free.
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
    guard.lost().await;
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
