//! Tests lingering grants, which a process keeps for some time after their release. The process reuses them at no cost,
//! and they do not delay waiters of other processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lock_core::backend::Renewal;
use lock_core::backend::memory::Memory;
use lock_core::strategy::{Backoff, Contention, Decision, Strategy};
use lock_core::testkit::{Fault, Flaky, Operation, SessionStore};
use lock_core::{LockErrorKind, LockManager, LockRequest, Profile, Released, strategy};
use tokio::time::Instant;

use crate::queue_store::QueueStore;
use crate::scripted::Scripted;
use crate::{is_free, millis};

const LONG: Duration = Duration::from_secs(30);

/// Returns two managers of one store, for each store that can notify a holder of waiters.
fn pairs() -> [(LockManager, LockManager); 2] {
    let (queue, memory) = (QueueStore::default(), Memory::new());
    let of_memory = || LockManager::builder(memory.clone()).build().unwrap();
    [(queue.manager(), queue.manager()), (of_memory(), of_memory())]
}

fn lingering(locks: &LockManager, linger: u64) -> LockRequest {
    locks.lock("k").ttl(Duration::from_secs(10)).linger(millis(linger))
}

fn wait(locks: &LockManager) -> LockRequest {
    locks.lock("k").strategy(strategy::wait())
}

/// Acquires and releases the lock once, so that the grant lingers.
async fn linger(locks: &LockManager, linger: u64) {
    let guard = lingering(locks, linger).acquire().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

/// Acquires and releases the lock, and returns how long that took.
async fn time_to(request: LockRequest) -> Duration {
    let start = Instant::now();
    request.acquire().await.unwrap().release().await.unwrap();
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn one_process_over_and_over_costs_the_store_next_to_nothing() {
    let store = QueueStore::default();
    let locks = store.manager();
    for _ in 0..5_000 {
        lingering(&locks, 5).run(tokio::time::sleep(millis(1))).await.unwrap();
    }
    // The store gets one request for the key, and one check for waiters in each second.
    let calls = store.calls();
    assert!(calls.tries == 1 && calls.releases == 0 && calls.all() <= 8, "{calls:?}");
    tokio::time::sleep(millis(10)).await;
    assert!(store.is_empty(), "its time is over");
}

#[tokio::test(start_paused = true)]
async fn who_waits_elsewhere_gets_it_at_once() {
    for (here, there) in pairs() {
        linger(&here, 1_000).await;
        assert!(time_to(wait(&there)).await < millis(5), "while it lingers");
        // If a waiter arrives while the lock is held, the grant does not linger.
        let guard = lingering(&here, 1_000).acquire().await.unwrap();
        let waiting = tokio::spawn(time_to(wait(&there)));
        tokio::time::sleep(millis(20)).await;
        guard.release().await.unwrap();
        let time = waiting.await.unwrap();
        assert!(time < millis(25), "{time:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_uses_it_all_the_time_lets_others_in_at_once() {
    for (here, there) in pairs() {
        let stop = Arc::new(AtomicBool::new(false));
        let busy = tokio::spawn({
            let stop = Arc::clone(&stop);
            async move {
                while !stop.load(Ordering::SeqCst) {
                    lingering(&here, 100)
                        .strategy(strategy::wait())
                        .run(tokio::time::sleep(millis(2)))
                        .await
                        .unwrap();
                }
            }
        });
        for _ in 0..50 {
            tokio::time::sleep(millis(7)).await;
            let time = time_to(wait(&there)).await;
            assert!(time <= millis(4), "{time:?}: longer than one hold");
        }
        stop.store(true, Ordering::SeqCst);
        busy.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_only_tries_is_refused_for_as_long_as_it_lingers() {
    for (here, there) in pairs() {
        linger(&here, 100).await;
        tokio::time::sleep(millis(99)).await;
        assert!(!is_free(&there, "k").await, "the documents say so");
        tokio::time::sleep(millis(3)).await;
        assert!(is_free(&there, "k").await, "given back by its time");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_notification_costs_no_more_than_the_linger() {
    let store = QueueStore::default();
    let (here, there) = (store.manager(), store.manager());
    store.deaf(true);
    linger(&here, 300).await;
    // The notification of the grant is lost too. The waiter gets the grant with its next heartbeat.
    let time = time_to(wait(&there)).await;
    assert!(time >= millis(300) && time <= millis(300 + 700), "{time:?}");
    // The process uses the grant continuously, so the linger time never ends.
    let stop = Arc::new(AtomicBool::new(false));
    let busy = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move {
            while !stop.load(Ordering::SeqCst) {
                lingering(&here, 100).run(tokio::time::sleep(millis(1))).await.unwrap();
            }
        }
    });
    tokio::time::sleep(millis(50)).await;
    let time = time_to(wait(&there)).await;
    assert!(time <= millis(2_000), "{time:?}");
    stop.store(true, Ordering::SeqCst);
    let _ = busy.await;
}

/// When the linger time is over, the grant is released in the background.
#[tokio::test(start_paused = true)]
async fn the_release_at_its_end_refuses_nobody_of_its_own_process() {
    let (store, control) = Flaky::new(Memory::new());
    let locks = LockManager::builder(store).build().unwrap();
    linger(&locks, 5).await;
    control.fail_next(Operation::Release, Fault::Hang, 1);
    while control.hanging(Operation::Release) == 0 {
        tokio::time::sleep(millis(1)).await;
    }
    let next = tokio::spawn(locks.lock("k").try_acquire());
    tokio::time::sleep(millis(100)).await;
    assert!(!next.is_finished(), "it waits for the answer to the release");
    control.heal();
    assert!(next.await.unwrap().unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_token_failed_does_not_linger() {
    let (store, control) = Flaky::new(Memory::new());
    let locks = LockManager::builder(store).build().unwrap();
    linger(&locks, 1_000).await;
    control.fail_next(Operation::Fence, Fault::Refuse, 1);
    let request = lingering(&locks, 1_000).fencing(true).strategy(strategy::fail_fast());
    assert_eq!(request.acquire().await.unwrap_err().kind(), LockErrorKind::Unavailable);
    assert!(!locks.is_locked("k").await.unwrap(), "it went to the store at once");
}

/// On the memory store, the callers' runtimes renew grants and end lingering grants.
#[test]
fn the_end_of_its_runtime_ends_it() {
    let store = Memory::new();
    let of_store = || LockManager::builder(store.clone()).build().unwrap();
    let (here, there) = (of_store(), of_store());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    first.block_on(linger(&here, 1_000));
    let other = runtime();
    let is_free = || other.block_on(async { there.lock("k").try_acquire().await.unwrap().is_some() });
    assert!(!is_free(), "it lingers");
    drop(first);
    assert!(is_free());
}

#[tokio::test(start_paused = true)]
async fn the_last_linger_of_a_key_counts() {
    let locks = LockManager::in_memory();
    linger(&locks, 1_000).await;
    linger(&locks, 10).await;
    tokio::time::sleep(millis(20)).await;
    assert!(!locks.is_locked("k").await.unwrap(), "earlier than it was listed for");
    linger(&locks, 10).await;
    linger(&locks, 1_000).await;
    tokio::time::sleep(millis(500)).await;
    assert!(locks.is_locked("k").await.unwrap());
    tokio::time::sleep(millis(600)).await;
    assert!(!locks.is_locked("k").await.unwrap(), "moved when its first entry came up");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_it() {
    let (store, sessions) = SessionStore::new();
    let manager = || LockManager::builder(store.clone()).build().unwrap();
    let (here, there) = (manager(), manager());
    linger(&here, 1_000).await;
    assert!(!is_free(&there, "k").await);
    sessions.reconnect();
    tokio::time::sleep(millis(1)).await;
    assert!(is_free(&there, "k").await, "somebody may have begun to wait meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_here_comes_first() {
    for (here, there) in pairs() {
        let guard = lingering(&here, 1_000).acquire().await.unwrap();
        let waiting = tokio::spawn(time_to(wait(&here)));
        tokio::time::sleep(millis(1)).await;
        guard.release().await.unwrap();
        let time = waiting.await.unwrap();
        assert!(time <= millis(2), "{time:?}");
        // The second request sets no linger time, so its grant does not linger.
        assert!(is_free(&there, "k").await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_found_it_held_and_then_waits_takes_it() {
    let store = QueueStore::default();
    let locks = store.manager();
    // Both tasks request the lock at the same time. The first task releases before the second task receives its
    // refusal.
    let (_, time) = tokio::join!(linger(&locks, 1_000), time_to(wait(&locks)));
    assert!(time <= millis(1), "{time:?}");
    assert_eq!(store.calls().tries, 2);
    // The second task joins the queue while the lock is held.
    for late in 0..6 {
        let guard = lingering(&locks, 1_000).acquire().await.unwrap();
        let waiting = tokio::spawn(time_to(wait(&locks)));
        for _ in 0..late {
            tokio::task::yield_now().await;
        }
        guard.release().await.unwrap();
        let time = waiting.await.unwrap();
        assert!(time <= millis(1), "{late}: {time:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_given_back_before_a_request_that_cannot_have_it_asks() {
    let store = QueueStore::default();
    let locks = store.manager();
    store.release_takes(millis(5));
    linger(&locks, 1_000).await;
    let brief = locks.lock("k").ttl(millis(100)).strategy(strategy::fail_fast());
    let guard = brief.acquire().await.expect("nobody else has it");
    assert!(store.remaining("k") <= millis(100));
    guard.release().await.unwrap();
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_cannot_have_it_has_it_given_back() {
    for (here, there) in pairs() {
        let fails = strategy::fail_fast;
        linger(&here, 1_000).await;
        let brief = here.lock("k").ttl(millis(100)).strategy(fails()).acquire().await.unwrap();
        assert!(brief.remaining() <= millis(100), "{:?}", brief.remaining());
        drop(brief);
        tokio::time::sleep(millis(1)).await;
        if here.store() == "memory" {
            linger(&here, 1_000).await;
            here.fair("k").strategy(fails()).run(async {}).await.unwrap();
            linger(&here, 1_000).await;
            here.all(["j", "k"]).strategy(fails()).run(async {}).await.unwrap();
            linger(&here, 1_000).await;
            here.semaphore("k", 2).strategy(fails()).run(async {}).await.unwrap();
        }
        assert!(is_free(&there, "k").await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_lease_is_over_is_gone() {
    let store = QueueStore::default();
    let locks = store.manager();
    let brief = || locks.lock("k").ttl(millis(30)).renew(false).linger(millis(10));
    let guard = brief().acquire().await.unwrap();
    tokio::time::sleep(millis(22)).await;
    guard.release().await.unwrap();
    // The holder treats a lease as expired 2 ms before its end.
    tokio::time::sleep(millis(6)).await;
    let guard = brief().acquire().await.unwrap();
    let calls = store.calls();
    assert_eq!((calls.tries, calls.renewals), (2, 0), "the store was asked for a new grant: {calls:?}");
    assert!(guard.remaining() > millis(20));
}

#[tokio::test(start_paused = true)]
async fn each_holder_has_a_larger_token_of_its_own() {
    for (here, there) in pairs() {
        let mut last = 0;
        for round in 0..50 {
            let guard = lingering(&here, 50).fencing(round % 2 == 0).acquire().await.unwrap();
            let token = guard.fencing_token().await.unwrap().get();
            assert!(token > last, "{token} after {last}");
            last = token;
            tokio::time::sleep(millis(3)).await;
            guard.release().await.unwrap();
        }
        let guard = wait(&there).acquire().await.unwrap();
        assert!(guard.fencing_token().await.unwrap().get() > last);
    }
}

#[tokio::test(start_paused = true)]
async fn each_acquisition_counts_anew() {
    for (here, there) in pairs() {
        for _ in 0..5 {
            let guard = lingering(&here, 100).max_hold(millis(50)).acquire().await.unwrap();
            assert!(guard.remaining() == millis(50), "{:?}", guard.remaining());
            tokio::time::sleep(millis(20)).await;
            assert!(guard.is_held());
            guard.release().await.unwrap();
            tokio::time::sleep(millis(20)).await;
        }
        // A nested call enters the same grant. The grant lingers after the outermost guard has ended.
        let nested = here.clone();
        lingering(&here, 100)
            .run(async move { nested.lock("k").run(async {}).await })
            .await
            .unwrap()
            .unwrap();
        assert!(!is_free(&there, "k").await);
        tokio::time::sleep(millis(102)).await;
    }
    // Only the memory store keeps a key after its release.
    let memory = Memory::new();
    let manager = || LockManager::builder(memory.clone()).build().unwrap();
    let (here, there) = (manager(), manager());
    lingering(&here, 10).min_hold(millis(200)).run(async {}).await.unwrap();
    tokio::time::sleep(millis(100)).await;
    assert!(!is_free(&there, "k").await, "kept in the store");
    tokio::time::sleep(millis(101)).await;
    assert!(is_free(&there, "k").await);
}

#[tokio::test(start_paused = true)]
async fn nobody_holds_it_and_the_store_shows_a_holder() {
    let memory = Memory::new();
    let manager = || LockManager::builder(memory.clone()).build().unwrap();
    let (here, there) = (manager(), manager());
    linger(&here, 100).await;
    assert_eq!(here.held(), 0);
    assert!(there.is_locked("k").await.unwrap());
    tokio::time::sleep(millis(102)).await;
    assert!(!there.is_locked("k").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_ends_it() {
    let memory = Memory::new();
    let manager = || LockManager::builder(memory.clone()).build().unwrap();
    let (here, there) = (manager(), manager());
    let guard = lingering(&here, 1_000).acquire().await.unwrap();
    let before = guard.fencing_token().await.unwrap();
    guard.release().await.unwrap();
    let id = there.locks().await.unwrap().locks[0].holders[0].id.clone();
    assert!(there.force_release("k", &id, "test").await.unwrap());
    let guard = there.lock("k").try_acquire().await.unwrap().expect("it is free");
    assert!(here.lock("k").try_acquire().await.unwrap().is_none(), "nobody takes what is gone");
    assert!(guard.fencing_token().await.unwrap() > before && guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_its_session_ends_it() {
    let (store, sessions) = SessionStore::new();
    let manager = || LockManager::builder(store.clone()).build().unwrap();
    let (here, there) = (manager(), manager());
    linger(&here, 1_000).await;
    sessions.end_all();
    let guard = there.lock("k").ttl(LONG).try_acquire().await.unwrap().expect("it is free");
    assert!(here.lock("k").ttl(LONG).try_acquire().await.unwrap().is_none());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_it_back_and_waits_for_that() {
    let store = QueueStore::default();
    let (here, there) = (store.manager(), store.manager());
    linger(&here, 1_000).await;
    store.release_takes(millis(50));
    let held = lingering(&here, 1_000).acquire().await.unwrap();
    let start = Instant::now();
    let closing = tokio::spawn({
        let here = here.clone();
        async move { here.shutdown(Duration::from_secs(5)).await }
    });
    tokio::time::sleep(millis(10)).await;
    // After the shutdown has begun, a released grant does not linger.
    held.release().await.unwrap();
    assert_eq!(closing.await.unwrap(), lock_core::ShutdownReport::default());
    assert!(store.is_empty() && start.elapsed() < millis(70), "{:?}", start.elapsed());

    linger(&there, 1_000).await;
    let start = Instant::now();
    assert_eq!(there.shutdown(Duration::from_secs(5)).await, lock_core::ShutdownReport::default());
    assert!(
        store.is_empty() && start.elapsed() >= millis(50),
        "it waits for the answer: {:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_is_dropped_gives_it_back() {
    for (here, there) in pairs() {
        linger(&here, 1_000).await;
        drop(here);
        tokio::time::sleep(millis(1)).await;
        assert!(is_free(&there, "k").await);
    }
}

#[tokio::test(start_paused = true)]
async fn every_await_point_can_be_dropped() {
    for (here, there) in pairs() {
        for polls in 0..8 {
            let nested = here.clone();
            let held =
                if polls % 2 == 0 { None } else { Some(lingering(&here, 20).acquire().await.unwrap()) };
            let mut running = Box::pin(lingering(&here, 20).strategy(strategy::wait()).run(async move {
                tokio::task::yield_now().await;
                nested.lock("k").run(tokio::task::yield_now()).await.unwrap();
            }));
            let mut held = held;
            for poll in 0..polls {
                let done = std::future::poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx).is_ready())).await;
                if done {
                    break;
                }
                if poll == 1 {
                    held = None;
                }
                tokio::task::yield_now().await;
            }
            drop(running);
            drop(held);
            assert_eq!(here.held(), 0);
            let time = time_to(wait(&there)).await;
            assert!(time <= millis(22), "dropped after {polls} polls: {time:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_of_what_cannot_be_taken_may_be_dropped() {
    let store = QueueStore::default();
    let locks = store.manager();
    linger(&locks, 1_000).await;
    store.release_takes(millis(20));
    let brief = locks.lock("k").ttl(millis(100)).acquire();
    assert!(tokio::time::timeout(millis(5), brief).await.is_err(), "it waits for the answer");
    tokio::time::sleep(millis(50)).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn many_keys_and_lingers_end_each_at_its_time() {
    let store = QueueStore::default();
    let locks = store.manager();
    let keys: Vec<_> = (0..100_u64).map(|n| (format!("k{n}"), 5 + n * 7 % 100)).collect();
    for (key, linger) in &keys {
        locks.lock(key.as_str()).linger(millis(*linger)).run(async {}).await.unwrap();
    }
    for now in 0..110 {
        for (key, linger) in &keys {
            let is_held = !store.remaining(key).is_zero();
            assert!(is_held || now >= *linger, "{key} at {now} of {linger}");
            assert!(!is_held || now <= *linger + 2, "{key} at {now} of {linger}");
        }
        tokio::time::sleep(millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_linger_is_refused_and_a_default_counts_where_it_can() {
    let locks = LockManager::builder(Memory::new())
        .linger(millis(100))
        .profile("off", Profile::new().linger(Duration::ZERO))
        .build()
        .unwrap();
    for request in
        [locks.fair("k"), locks.read("k"), locks.write("k"), locks.semaphore("k", 2), locks.all(["j", "k"])]
    {
        let error = request.clone().linger(millis(5)).check().unwrap_err();
        assert!(
            error.kind() == LockErrorKind::InvalidRequest && error.to_string().contains("linger"),
            "{error}"
        );
        request.check().unwrap();
    }
    let long = locks.lock("k").ttl(millis(300)).linger(millis(101)).check().unwrap_err();
    assert!(long.to_string().contains("a third of the ttl"), "{long}");
    assert!(LockManager::builder(Memory::new()).linger(millis(1_001)).build().is_err());

    let other = || locks.locks();
    locks.lock("default").run(async {}).await.unwrap();
    locks.lock("request").linger(Duration::ZERO).run(async {}).await.unwrap();
    locks.lock("profile").profile("off").run(async {}).await.unwrap();
    locks.fair("fair").run(async {}).await.unwrap();
    let left: Vec<_> = other().await.unwrap().locks.into_iter().map(|lock| lock.key).collect();
    assert_eq!(left, ["default"]);
}

/// A strategy that records how long its request has waited at each decision.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<Duration>>>);

impl Strategy for Told {
    fn decide(&self, contention: &Contention) -> Decision {
        self.0.lock().unwrap().push(contention.waited);
        Decision::RetryAfter(millis(10))
    }

    fn name(&self) -> std::borrow::Cow<'static, str> {
        "told".into()
    }
}

#[tokio::test(start_paused = true)]
async fn a_strategy_is_told_of_the_time_that_a_lost_grant_took() {
    let (locks, store) = Scripted::manager(|_| {});
    drop(locks.lock("k").ttl(LONG).linger(millis(500)).acquire().await.unwrap());
    {
        let mut script = store.script();
        script.renew.push_back(Renewal::NotOwned);
        script.renew_takes = Duration::from_secs(3);
    }
    let told = Told::default();
    // A lock without renewals needs the whole lease, so the grant is renewed first.
    drop(locks.lock("k").ttl(LONG).renew(false).strategy(told.clone()).acquire().await.unwrap());
    assert_eq!(*told.0.lock().unwrap(), [Duration::from_secs(3)]);
}

/// While the waiter is not polled, it is skipped. When it is polled again, a grant of its process lingers.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_comes_back_takes_the_lingering_grant_at_once() {
    let locks = LockManager::in_memory();
    let holder = locks.lock("k").ttl(LONG).acquire().await.unwrap();
    let seldom = Backoff::exponential(LONG, LONG);
    let mut waiting = Box::pin(wait(&locks).ttl(LONG).backoff(seldom).acquire());
    assert!(std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
    tokio::time::sleep(millis(10)).await;
    drop(holder);
    // The grant was handed off to the unpolled waiter, and the queue has taken it back by now.
    tokio::time::sleep(millis(400)).await;
    drop(locks.lock("k").ttl(LONG).linger(Duration::from_secs(1)).acquire().await.unwrap());
    let start = Instant::now();
    drop(waiting.await.unwrap());
    assert!(start.elapsed().is_zero(), "{:?}", start.elapsed());
}
