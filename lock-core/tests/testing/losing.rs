//! Locks that are lost on demand.

use std::time::Duration;

use lock_core::testing::TestLocks;
use lock_core::{LockError, LossReason, distributed_lock};

#[distributed_lock(key = "import")]
async fn import() -> Result<(), LockError> {
    std::future::pending().await
}

async fn running(locks: &TestLocks) -> tokio::task::JoinHandle<Result<(), LockError>> {
    let running = tokio::spawn(locks.scope(import()));
    while locks.held() == 0 {
        tokio::task::yield_now().await;
    }
    running
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "a test looks at the paused clock")]
async fn a_body_whose_lock_is_lost_is_dropped_at_once() {
    let locks = TestLocks::builder().namespace("shop").build();
    let begun = tokio::time::Instant::now();
    let body = running(&locks).await;
    locks.lose("import");
    let error = body.await.unwrap().unwrap_err();
    assert_eq!(error.loss_reason(), Some(LossReason::Taken));
    assert_eq!(begun.elapsed(), Duration::ZERO, "not at the next renewal");
    assert!(locks.lock("import").try_acquire().await.unwrap().is_some(), "it is free");
}

#[tokio::test(start_paused = true)]
async fn what_is_stolen_has_a_larger_token_elsewhere() {
    let locks = TestLocks::new();
    let guard = locks.lock("k").acquire().await.unwrap();
    let token = guard.fencing_token().await.unwrap();
    let thief = locks.steal("k").await;
    assert!(thief.fencing_token().await > token);
    assert!(!guard.is_held());
    assert!(guard.check().unwrap_err().is_lost());
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    thief.release().await;
    assert!(locks.lock("k").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
#[should_panic(expected = "nobody holds `k`")]
async fn nobody_can_lose_what_nobody_holds() {
    let locks = TestLocks::new();
    let _elsewhere = locks.contend("k").await;
    locks.lose("k");
}

#[tokio::test]
async fn one_of_several_keys_is_all_of_them() {
    let locks = TestLocks::new();
    let guard = locks.all(["a", "b"]).acquire().await.unwrap();
    locks.lose("b");
    assert!(!guard.is_held());
    assert!(locks.lock("a").try_acquire().await.unwrap().is_some());
}
