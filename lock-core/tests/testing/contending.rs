//! Tests of keys that another process holds.

use std::time::Duration;

use lock_core::testing::TestLocks;
use lock_core::{Kind, LockError, LockErrorKind, Profile, distributed_lock, strategy};

const SECOND: Duration = Duration::from_secs(1);

#[distributed_lock(key = "order:<id>", wait = "2s")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[tokio::test(start_paused = true)]
async fn another_process_holds_until_it_lets_go() {
    let locks = TestLocks::new();
    let elsewhere = locks.contend("order:7").await;
    assert_eq!(elsewhere.key(), "order:7");
    assert_eq!(locks.scope(ship(7)).await.unwrap_err().kind(), LockErrorKind::TimedOut);
    assert_eq!(locks.scope(ship(8)).await.unwrap(), 8);
    elsewhere.release().await;
    assert_eq!(locks.scope(ship(7)).await.unwrap(), 7);
    drop(locks.contend("order:7").await);
    assert_eq!(locks.scope(ship(7)).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn it_is_another_process_and_no_nested_call() {
    let locks = TestLocks::new();
    locks
        .lock("order:7")
        .run(async {
            let error = locks.lock("order:8").strategy(strategy::fail_fast()).acquire().await.map(drop);
            assert!(error.is_ok());
            let elsewhere = locks.contend("order:8").await;
            assert!(locks.lock("order:8").try_acquire().await.unwrap().is_none());
            drop(elsewhere);
        })
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn for_a_while() {
    let locks = TestLocks::new();
    locks.contend_for("order:7", SECOND).await;
    assert!(locks.lock("order:7").try_acquire().await.unwrap().is_none());
    assert_eq!(locks.scope(ship(7)).await.unwrap(), 7);
    locks.contend_for("order:7", 3 * SECOND).await;
    assert!(locks.scope(ship(7)).await.unwrap_err().is_timed_out());
}

#[tokio::test(start_paused = true)]
async fn a_test_knows_who_waits() {
    for kind in [Kind::Reentrant, Kind::Fair] {
        let locks = TestLocks::builder().namespace("shop").build();
        let elsewhere = locks.contend("k").await;
        let mut waiting = Vec::new();
        for count in 1..=3 {
            let request = locks.request("k", kind).wait(SECOND);
            waiting.push(tokio::spawn(async move { request.run(async {}).await }));
            locks.until_waiting("k", count).await;
        }
        elsewhere.release().await;
        for request in waiting {
            request.await.unwrap().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "2 requests should wait for `k`, but 1 do")]
async fn a_wait_that_never_comes_is_a_failed_test() {
    let locks = TestLocks::new();
    let _elsewhere = locks.contend("k").await;
    let request = locks.lock("k").strategy(strategy::wait());
    let _waiting = tokio::spawn(request.run(async {}));
    locks.until_waiting("k", 2).await;
}

#[tokio::test]
#[should_panic(expected = "another process cannot take `k`")]
async fn nobody_can_hold_what_is_held() {
    let locks = TestLocks::new();
    let _guard = locks.lock("k").acquire().await.unwrap();
    let _ = locks.contend("k").await;
}

#[tokio::test]
async fn profiles_and_namespaces_are_those_of_the_program() {
    let locks = TestLocks::builder()
        .namespace("shop")
        .profile("quick", Profile::new().strategy(strategy::fail_fast()))
        .with(|builder| builder.service("shop"))
        .build();
    locks.validate(["quick"]).unwrap();
    let elsewhere = locks.contend("k").await;
    assert_eq!(elsewhere.key(), "shop:k");
    let error = locks.lock("k").profile("quick").acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Contended);
    assert!(error.to_string().contains("another process"), "{error}");
}

#[tokio::test]
async fn every_value_has_a_store_of_its_own() {
    let (one, other) = (TestLocks::new(), TestLocks::new());
    let _held = one.contend("k").await;
    assert!(other.lock("k").try_acquire().await.unwrap().is_some());
    assert!(one.clone().lock("k").try_acquire().await.unwrap().is_none(), "a clone shares it");
}

#[tokio::test(start_paused = true)]
async fn other_kinds_are_held_elsewhere_too() {
    let locks = TestLocks::new();
    let reader = locks.contend_as("k", Kind::Read).await;
    assert!(locks.read("k").try_acquire().await.unwrap().is_some());
    assert!(locks.write("k").try_acquire().await.unwrap().is_none());
    reader.release().await;
    assert!(locks.write("k").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn several_keys_that_are_waited_for_are_seen() {
    let locks = TestLocks::new();
    let elsewhere = locks.contend("b").await;
    let waiting = tokio::spawn(locks.all(["a", "b"]).run(async {}));
    locks.until_waiting("b", 1).await;
    drop(elsewhere);
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_test_knows_who_holds() {
    let locks = TestLocks::builder().namespace("shop").build();
    let _elsewhere = locks.contend("elsewhere").await;
    assert!(locks.held_keys().is_empty());
    let request = locks.all(["b", "a"]);
    let running = tokio::spawn(async move {
        tokio::time::sleep(SECOND).await;
        let guard = request.acquire().await.unwrap();
        std::future::pending::<()>().await;
        drop(guard);
    });
    locks.until_held("a").await;
    let readers = [locks.read("r").acquire().await.unwrap(), locks.read("r").acquire().await.unwrap()];
    assert_eq!(locks.held_keys(), ["shop:a", "shop:b", "shop:r"]);
    running.abort();
    let _ = running.await;
    drop(readers);
    assert!(locks.held_keys().is_empty());
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "`k` should be held")]
async fn a_hold_that_never_comes_is_a_failed_test() {
    let locks = TestLocks::new();
    let _lost = locks.lock("k").acquire().await.unwrap();
    let _elsewhere = locks.steal("k").await;
    assert!(locks.held_keys().is_empty());
    locks.until_held("k").await;
}

#[tokio::test]
async fn the_namespace_of_another_process_is_that_of_the_program() {
    // The way in which the namespace was set does not matter.
    let locks = TestLocks::builder().with(|builder| builder.namespace("shop")).ttl(3 * SECOND).build();
    assert_eq!(locks.contend("k").await.key(), "shop:k");
    let left = locks.lock("k").acquire().await.unwrap().remaining();
    assert!(left <= 3 * SECOND && left > 2 * SECOND, "{left:?}");
}
