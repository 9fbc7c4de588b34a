use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::{LockErrorKind, LockManager, Released, strategy};
use tokio::time::Instant;

use crate::{is_free, millis, patient};

#[tokio::test(start_paused = true)]
async fn one_holder_at_a_time_and_release_says_so() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").acquire().await.unwrap();
    assert_eq!((guard.key(), guard.is_held(), locks.held()), ("k", true, 1));
    assert!(!is_free(&locks, "k").await);
    assert!(is_free(&locks, "other").await);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(is_free(&locks, "k").await);
    assert_eq!(locks.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn fail_fast_says_who_holds() {
    let locks =
        LockManager::builder(lock_core::backend::memory::Memory::new()).service("shop").build().unwrap();
    let _guard = locks.lock("k").label("pay").acquire().await.unwrap();
    let error = locks.lock("k").strategy(strategy::fail_fast()).acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Contended);
    assert!(error.is_contended() && error.is_temporary() && !error.is_skipped());
    assert_eq!(error.key(), Some("k"));
    let holder = error.holder().expect("memory knows");
    assert_eq!((holder.identity().service(), holder.label()), ("shop", Some("pay")));
    assert_eq!(holder.identity().pid(), std::process::id());
    assert!(error.retry_after().is_some_and(|after| after <= millis(10_000)));
}

#[tokio::test(start_paused = true)]
async fn skip_is_not_a_failure() {
    let locks = LockManager::in_memory();
    let _guard = locks.lock("k").acquire().await.unwrap();
    let error = locks.lock("k").strategy(strategy::skip()).acquire().await.unwrap_err();
    assert!(error.is_skipped());
}

#[tokio::test(start_paused = true)]
async fn retry_waits_as_long_as_it_was_told() {
    let locks = LockManager::in_memory();
    let _guard = locks.lock("k").acquire().await.unwrap();
    let start = Instant::now();
    let error = patient(&locks, "k", millis(300)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::TimedOut);
    let waited = start.elapsed();
    assert!(waited >= millis(300) && waited < millis(320), "{waited:?}");
    assert!(error.waited().is_some_and(|said| said >= millis(300)));
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_the_request_goes_before_that_of_the_strategy() {
    let locks = LockManager::in_memory();
    let _guard = locks.lock("k").acquire().await.unwrap();
    let start = Instant::now();
    locks.lock("k").wait(millis(50)).acquire().await.unwrap_err();
    assert!(start.elapsed() < millis(70), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_key_as_soon_as_it_is_free() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(patient(&locks, "k", millis(60_000)).acquire());
    tokio::time::sleep(millis(30_000)).await;
    let freed = Instant::now();
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(freed.elapsed(), Duration::ZERO, "woken, not polled");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_crashed_holder_costs_its_ttl() {
    let locks = LockManager::in_memory();
    // The lock is not renewed and not released, as if its holder had died.
    let guard = locks.lock("k").ttl(millis(500)).renew(false).acquire().await.unwrap();
    std::mem::forget(guard);
    let start = Instant::now();
    let guard = patient(&locks, "k", millis(5_000)).acquire().await.unwrap();
    assert!(start.elapsed() >= millis(500) && start.elapsed() < millis(510), "{:?}", start.elapsed());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_process_are_served_in_order_and_one_by_one() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").acquire().await.unwrap();
    let (order, inside) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = Vec::new();
    for i in 0..50 {
        let (request, order, inside) = (patient(&locks, "k", millis(60_000)), order.clone(), inside.clone());
        tasks.push(tokio::spawn(request.run(async move {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            tokio::time::sleep(millis(1)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            assert_eq!(order.fetch_add(1, Ordering::SeqCst), i);
        })));
        tokio::task::yield_now().await;
    }
    drop(guard);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn max_waiters_and_shed_turn_the_surplus_away() {
    let locks = LockManager::in_memory();
    let _guard = locks.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(patient(&locks, "k", millis(10_000)).acquire());
    tokio::time::sleep(millis(1)).await;
    let surplus = patient(&locks, "k", millis(10_000)).max_waiters(1).acquire().await.unwrap_err();
    assert_eq!((surplus.kind(), surplus.waiters()), (LockErrorKind::Overloaded, Some(1)));
    let shed = strategy::shed(strategy::retry().within(millis(10_000)), 1);
    let surplus = locks.lock("k").strategy(shed).acquire().await.unwrap_err();
    assert_eq!(surplus.kind(), LockErrorKind::Overloaded);
    waiting.abort();
}

/// With `max_waiters(0)`, no request could wait. It is refused before a request to the store, which would grant the key.
#[tokio::test(start_paused = true)]
async fn a_limit_of_no_waiters_is_refused() {
    let locks = LockManager::in_memory();
    for request in [patient(&locks, "k", millis(10)), locks.fair("k"), locks.all(["k", "l"]), locks.lock("k")]
    {
        let error = request.max_waiters(0).acquire().await.unwrap_err();
        assert_eq!((error.kind(), error.key()), (LockErrorKind::InvalidRequest, Some("k")));
        let expected = "max_waiters is 0, so nobody could wait: use the strategy `fail_fast`";
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn max_waiters_counts_for_fair_locks_too() {
    let locks = LockManager::in_memory();
    let _guard = locks.fair("k").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.fair("k").wait(millis(10_000)).acquire());
    tokio::time::sleep(millis(1)).await;
    let surplus = locks.fair("k").wait(millis(10_000)).max_waiters(1).acquire().await.unwrap_err();
    assert_eq!(surplus.kind(), LockErrorKind::Overloaded);
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn readers_share_and_writers_do_not() {
    let locks = LockManager::in_memory();
    let (one, two) = (locks.read("k").acquire().await.unwrap(), locks.read("k").acquire().await.unwrap());
    assert!(locks.write("k").try_acquire().await.unwrap().is_none());
    drop((one, two));
    let writer = locks.write("k").acquire().await.unwrap();
    assert!(locks.read("k").try_acquire().await.unwrap().is_none());
    drop(writer);
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_admits_its_permits() {
    let locks = LockManager::in_memory();
    let one = locks.semaphore("k", 2).acquire().await.unwrap();
    let two = locks.semaphore("k", 2).acquire().await.unwrap();
    assert!(locks.semaphore("k", 2).try_acquire().await.unwrap().is_none());
    drop(one);
    let three = locks.semaphore("k", 2).acquire().await.unwrap();
    drop((two, three));
}

#[tokio::test(start_paused = true)]
async fn fair_serves_in_order_of_arrival_over_managers() {
    let store = lock_core::backend::memory::Memory::new();
    let managers = [(); 3].map(|()| LockManager::builder(store.clone()).build().unwrap());
    let guard = managers[0].fair("k").acquire().await.unwrap();
    let order = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for i in 0..30 {
        let request = managers[i % 3].fair("k").wait(millis(60_000));
        let order = order.clone();
        tasks.push(tokio::spawn(
            request.run(async move { order.fetch_add(1, Ordering::SeqCst) as usize == i }),
        ));
        tokio::time::sleep(millis(1)).await;
    }
    drop(guard);
    for task in tasks {
        assert!(task.await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn fencing_tokens_grow_and_stay_within_a_grant() {
    let locks = LockManager::in_memory();
    let mut last = 0;
    for _ in 0..100 {
        let guard = locks.lock("k").acquire().await.unwrap();
        let token = guard.fencing_token().await.unwrap();
        assert!(token.get() > last);
        assert_eq!(guard.handle().fencing_token().await.unwrap(), token);
        last = token.get();
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn min_hold_keeps_the_key_after_the_release() {
    let locks = LockManager::in_memory();
    let start = Instant::now();
    locks.lock("job").min_hold(millis(2_000)).run(async {}).await.unwrap();
    assert!(!is_free(&locks, "job").await);
    patient(&locks, "job", millis(10_000)).acquire().await.unwrap().release().await.unwrap();
    assert!(start.elapsed() >= millis(2_000) && start.elapsed() < millis(2_050), "{:?}", start.elapsed());
}

/// A strategy with long pauses. Only a notification ends a pause early.
#[derive(Debug)]
struct OncePerHour;

impl strategy::Strategy for OncePerHour {
    fn decide(&self, _: &strategy::Contention) -> strategy::Decision {
        strategy::Decision::RetryAfter(Duration::from_secs(3_600))
    }

    fn name(&self) -> std::borrow::Cow<'static, str> {
        "once_per_hour".into()
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_by_another_manager_is_heard_in_the_first_pause() {
    let store = lock_core::backend::memory::Memory::new();
    let [one, two] = [(); 2].map(|()| LockManager::builder(store.clone()).build().unwrap());
    let guard = one.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(two.lock("k").strategy(OncePerHour).acquire());
    tokio::time::sleep(millis(10)).await;
    let freed = Instant::now();
    drop(guard);
    drop(waiting.await.unwrap().unwrap());
    assert!(freed.elapsed() < millis(5), "{:?}", freed.elapsed());
}

/// A task that awaits an acquisition contains its future, so the task is at least as large as this future.
#[tokio::test(start_paused = true)]
async fn the_future_of_an_acquisition_is_small() {
    let locks = LockManager::in_memory();
    let acquire = locks.lock("k").acquire();
    assert!(size_of_val(&acquire) <= 512, "{} bytes", size_of_val(&acquire));
}
