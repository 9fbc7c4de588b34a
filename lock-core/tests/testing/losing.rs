//! Tests of locks that are lost on demand.

use std::time::Duration;

use lock_core::testing::TestLocks;
use lock_core::{Kind, LockError, LossReason, distributed_lock, strategy};

#[distributed_lock(key = "import")]
async fn import() -> Result<(), LockError> {
    std::future::pending().await
}

async fn running(locks: &TestLocks) -> tokio::task::JoinHandle<Result<(), LockError>> {
    let running = tokio::spawn(locks.scope(import()));
    locks.until_held("import").await;
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

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "a test looks at the paused clock")]
async fn who_waits_in_the_same_process_gets_what_is_lost_at_once() {
    for kind in [Kind::Reentrant, Kind::Fair] {
        let locks = TestLocks::new();
        let begun = tokio::time::Instant::now();
        let guard = locks.request("k", kind).acquire().await.unwrap();
        let waiting = tokio::spawn(locks.request("k", kind).acquire());
        locks.until_waiting("k", 1).await;
        locks.lose("k");
        let next = waiting.await.unwrap().unwrap();
        assert!(next.is_held() && !guard.is_held());
        assert_eq!(begun.elapsed(), Duration::ZERO, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thief_goes_before_who_waits_in_the_same_process() {
    let locks = TestLocks::new();
    let guard = locks.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("k").strategy(strategy::wait()).acquire());
    locks.until_waiting("k", 1).await;
    let thief = locks.steal("k").await;
    assert!(!guard.is_held());
    locks.until_waiting("k", 1).await;
    thief.release().await;
    drop(waiting.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "another process cannot take `k`")]
async fn a_thief_does_not_jump_a_queue() {
    let locks = TestLocks::new();
    let _guard = locks.fair("k").acquire().await.unwrap();
    let _waiting = tokio::spawn(locks.fair("k").strategy(strategy::wait()).acquire());
    locks.until_waiting("k", 1).await;
    let _ = locks.steal("k").await;
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_waits_for_its_loss_is_told() {
    let locks = TestLocks::new();
    let guard = locks.lock("k").ttl(Duration::from_secs(60)).acquire().await.unwrap();
    let handle = guard.handle();
    let told = tokio::spawn(async move { handle.lost().await });
    tokio::task::yield_now().await;
    locks.lose("k");
    assert_eq!(told.await.unwrap(), LossReason::Taken);
    guard.release().await.unwrap_err();
    assert!(locks.lock("k").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn every_reader_loses_and_a_key_beside_it_does_not() {
    let locks = TestLocks::new();
    let readers = [locks.read("k").acquire().await.unwrap(), locks.read("k").acquire().await.unwrap()];
    let beside = locks.lock("kk").acquire().await.unwrap();
    locks.lose("k");
    assert!(readers.iter().all(|guard| !guard.is_held()) && beside.is_held());
    assert!(locks.write("k").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
#[should_panic(expected = "nobody holds `k`")]
async fn what_was_released_cannot_be_lost() {
    let locks = TestLocks::new();
    locks.lock("k").run(async {}).await.unwrap();
    locks.lose("k");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_reaches_other_threads() {
    let locks = TestLocks::new();
    for _ in 0..100 {
        let body = running(&locks).await;
        let waiting = tokio::spawn(locks.lock("import").acquire());
        locks.until_waiting("import", 1).await;
        locks.lose("import");
        assert!(body.await.unwrap().unwrap_err().is_lost());
        let next =
            tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("woken, not by a lease");
        next.unwrap().unwrap().release().await.unwrap();
    }
}
