//! Tests which waiters send requests to the store, when they do, and which waiters are notified.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::backend::{Attempt, Fencing, Held, Waiting};
use lock_core::strategy::{Contention, Decision, Strategy};
use lock_core::{Kind, LockErrorKind, LockManager, strategy};
use tokio::time::Instant;

use crate::scripted::{Every, Scripted, no_answer};
use crate::{is_free, millis};

/// Returns a manager on a store that sends no notification of a release.
fn silent() -> (LockManager, Scripted) {
    Scripted::manager(|store| store.waiting = Waiting::Poll)
}

const HOUR: Duration = Duration::from_secs(3_600);

async fn settle() {
    tokio::time::sleep(millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_of_this_process_is_told_by_the_guard_though_the_store_tells_nobody() {
    for by_drop in [false, true] {
        let (locks, _store) = silent();
        let guard = locks.lock("k").acquire().await.unwrap();
        let waiting = tokio::spawn(locks.lock("k").strategy(Every(HOUR, HOUR)).acquire());
        settle().await;
        let freed = Instant::now();
        if by_drop {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
        drop(waiting.await.unwrap().unwrap());
        assert_eq!(freed.elapsed(), Duration::ZERO, "dropped: {by_drop}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_of_another_manager_is_told_by_the_store() {
    let (locks, store) = Scripted::manager(|_| {});
    let guard = store.stranger().lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("k").strategy(Every(HOUR, HOUR)).acquire());
    settle().await;
    let freed = Instant::now();
    guard.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(freed.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn readers_behind_a_writer_go_in_together() {
    let locks = LockManager::in_memory();
    let writer = locks.write("k").acquire().await.unwrap();
    let readers: Vec<_> =
        (0..5).map(|_| tokio::spawn(locks.read("k").strategy(Every(HOUR, HOUR)).acquire())).collect();
    settle().await;
    let freed = Instant::now();
    writer.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(reader.await.unwrap().unwrap());
    }
    assert_eq!(freed.elapsed(), Duration::ZERO);
    drop(guards);
}

#[tokio::test(start_paused = true)]
async fn a_hot_key_costs_the_store_one_try_in_vain_for_each_waiter() {
    let (locks, store) = Scripted::manager(|_| {});
    let guard = locks.lock("k").acquire().await.unwrap();
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let request = locks.lock("k").strategy(Every(HOUR, HOUR));
            tokio::spawn(request.run(async { tokio::time::sleep(millis(5)).await }))
        })
        .collect();
    settle().await;
    guard.release().await.unwrap();
    for waiter in waiting {
        waiter.await.unwrap().unwrap();
    }
    // The store gets the holder's try and two tries of each waiter: the first, and the one that acquires the key. A few
    // waiters try once more when a pause ends.
    assert!(store.tries().len() <= 1 + 2 * 20 + 6, "{}", store.tries().len());
}

#[tokio::test(start_paused = true)]
async fn only_the_head_of_the_waiters_asks_the_store() {
    let (locks, store) = silent();
    let _guard = store.stranger().lock("k").acquire().await.unwrap();
    let waiting: Vec<_> =
        (0..5).map(|_| tokio::spawn(locks.lock("k").strategy(Every(millis(50), HOUR)).acquire())).collect();
    tokio::time::sleep(millis(20)).await;
    let first = store.tries();
    assert!(first.len() <= 6, "one of each, and the head's second");
    tokio::time::sleep(millis(5_000)).await;
    let tries = store.tries();
    assert!(tries.len() > 50 && tries[first.len()..].iter().all(|owner| *owner == first[0]));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_long_pause_is_kept_alone_and_cut_short_in_company() {
    let (locks, store) = silent();
    let _guard = store.stranger().lock("k").acquire().await.unwrap();
    let first = tokio::spawn(locks.lock("k").strategy(Every(millis(4_000), HOUR)).acquire());
    settle().await;
    let before = store.tries().len();
    tokio::time::sleep(millis(4_500)).await;
    assert_eq!(store.tries().len() - before, 1, "one after the pause");
    // The second waiter arrives in the middle of the first waiter's pause.
    let second = tokio::spawn(locks.lock("k").strategy(Every(millis(4_000), HOUR)).acquire());
    settle().await;
    let before = store.tries().len();
    tokio::time::sleep(millis(2_000)).await;
    let tries = store.tries().len() - before;
    assert!((9..=11).contains(&tries), "{tries} in 2 s with pauses of 200 ms");
    first.abort();
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_time_is_over_tries_once_more_though_it_is_not_its_turn() {
    let (locks, store) = silent();
    let guard = store.stranger().lock("k").acquire().await.unwrap();
    let head = tokio::spawn(locks.lock("k").strategy(Every(HOUR, HOUR)).acquire());
    settle().await;
    let second = tokio::spawn(locks.lock("k").strategy(Every(millis(290), millis(290))).acquire());
    // The head has another waiter behind it, so it tries every 200 ms: at 200 ms and at 400 ms.
    tokio::time::sleep(millis(250)).await;
    guard.release().await.unwrap();
    let guard = second.await.unwrap().expect("it is free, and the head has not asked yet");
    drop(guard);
    drop(head.await.unwrap().unwrap());

    // Another process holds the key this time. The second waiter makes one last try, and its wait ends.
    let guard = store.stranger().lock("k").acquire().await.unwrap();
    let head = tokio::spawn(locks.lock("k").strategy(Every(HOUR, HOUR)).acquire());
    settle().await;
    let error = locks.lock("k").strategy(Every(millis(90), millis(90))).acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::TimedOut);
    head.abort();
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn the_waiters_that_the_store_knows_count() {
    let (locks, store) = silent();
    let held = Held { waiters: Some(7), ..Held::default() };
    store.script().acquire.push_back(Ok(Attempt::Held(held)));
    let shed = strategy::shed(strategy::wait(), 3);
    let error = locks.lock("k").strategy(shed).acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.waiters()), (LockErrorKind::Overloaded, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_is_not_asked_in_a_tight_loop_and_a_lasting_failure_not_again() {
    let (locks, store) = silent();
    store.script().acquire.extend((0..1_000).map(|_| Err(no_answer().nothing_taken())));
    locks.lock("k").strategy(Every(millis(1), millis(500))).acquire().await.unwrap_err();
    let times = store.try_times();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= millis(25)), "{} tries", times.len());

    let (locks, store) = silent();
    store.script().acquire.push_back(Err(no_answer().permanent()));
    let error = locks.lock("k").strategy(strategy::wait()).acquire().await.unwrap_err();
    assert!(error.is_unavailable() && !error.is_temporary());
    assert_eq!(store.tries().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_wakes_those_who_pause_for_a_failing_store() {
    let (locks, store) = silent();
    store.script().acquire.extend((0..1_000).map(|_| Err(no_answer().nothing_taken())));
    let waiting = tokio::spawn(locks.lock("k").strategy(Every(millis(20_000), HOUR)).acquire());
    settle().await;
    let start = Instant::now();
    locks.shutdown(millis(1)).await;
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), LockErrorKind::ShuttingDown);
    assert!(start.elapsed() < millis(10), "{:?}", start.elapsed());
}

#[cfg(feature = "testkit")]
#[tokio::test(start_paused = true)]
async fn a_shutdown_during_a_try_ends_the_wait_that_would_follow() {
    use lock_core::testkit::{Fault, Flaky, Operation};
    let store = lock_core::backend::memory::Memory::new();
    let other = LockManager::builder(store.clone()).build().unwrap();
    let _guard = other.lock("k").acquire().await.unwrap();
    let (flaky, control) = Flaky::new(store);
    let locks = LockManager::builder(flaky).build().unwrap();
    control.fail_next(Operation::Acquire, Fault::HangAnswer, 1);
    let waiting = tokio::spawn(locks.lock("k").strategy(Every(HOUR, HOUR)).acquire());
    settle().await;
    locks.shutdown(millis(1)).await;
    let start = Instant::now();
    control.heal();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), LockErrorKind::ShuttingDown);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_fencing_token_comes_with_the_grant_or_is_asked_for_once() {
    let (locks, store) = Scripted::manager(|_| {});
    let fenced = || store.asked(&crate::scripted::Asked::Fence);
    let guard = locks.lock("k").acquire().await.unwrap();
    guard.fencing_token().await.unwrap();
    assert_eq!(fenced(), 0, "it came with the grant");
    guard.release().await.unwrap();

    let (sent, lease) = (lock_core::clock::Clock::Tokio.now(), millis(10_000));
    let grant = lock_core::backend::Grant::new(sent, lease);
    store.script().acquire.extend([Ok(Attempt::Granted(grant)), Ok(Attempt::Granted(grant))]);
    let guard = locks.lock("k").acquire().await.unwrap();
    let token = lock_core::FencingToken::new(5);
    store.script().fence.extend([Err(no_answer()), Ok(token)]);
    assert!(guard.fencing_token().await.unwrap_err().is_unavailable());
    guard.check().expect("no answer is no loss");
    for _ in 0..3 {
        assert_eq!(guard.fencing_token().await.unwrap(), token);
    }
    assert_eq!(fenced(), 2);
    drop(guard);

    // The store answers that the lock belongs to another owner. This is a loss, and all users of the lock are notified.
    let guard = locks.lock("k").acquire().await.unwrap();
    assert!(guard.fencing_token().await.unwrap_err().is_lost());
    assert!(!guard.is_held());
    assert_eq!(guard.lost().await, lock_core::LossReason::Taken);
    assert!(guard.fencing_token().await.unwrap_err().is_lost());
    assert_eq!(fenced(), 3, "a lost lock asks no more");
}

#[tokio::test(start_paused = true)]
async fn fencing_is_asked_for_or_refused() {
    let (locks, store) = Scripted::manager(|_| {});
    locks.lock("k").fencing(true).acquire().await.unwrap().release().await.unwrap();
    drop(locks.lock("k").acquire().await.unwrap());
    let asked: Vec<_> = store
        .script()
        .asked
        .iter()
        .filter_map(|(_, asked)| match asked {
            crate::scripted::Asked::Acquire { fencing, .. } => Some(*fencing),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [true, false]);
    let (locks, store) = Scripted::manager(|store| store.fencing = Fencing::None);
    let error = locks.lock("k").fencing(true).acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unsupported);
    assert_eq!(store.tries().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_in_order_costs_the_store_no_more_the_longer_it_waits() {
    const WAITERS: usize = 100;
    let kinds = [Kind::Fair, Kind::Write, Kind::Read, Kind::Semaphore { permits: 1 }];
    for kind in kinds {
        let (locks, store) = Scripted::manager(|_| {});
        // Readers do not exclude each other, so the holder is a writer.
        let holds = if kind == Kind::Read { Kind::Write } else { kind };
        let holder = locks.request("k", holds).acquire().await.unwrap();
        let waiting: Vec<_> = (0..WAITERS)
            .map(|_| {
                let request = locks.request("k", kind).strategy(Every(millis(100), HOUR));
                tokio::spawn(request.run(async { tokio::time::sleep(millis(1)).await }))
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(30)).await;
        // By now, each waiter has paused 300 times.
        assert_eq!(store.tries_and_waits(), (1 + WAITERS, WAITERS), "{kind}: one place each, and one wait");
        holder.release().await.unwrap();
        for waiter in waiting {
            waiter.await.unwrap().unwrap();
        }
        assert_eq!(
            store.tries_and_waits(),
            (1 + 2 * WAITERS, WAITERS),
            "{kind}: one more try, which is granted"
        );
    }
}

/// A strategy that counts its decisions and otherwise acts like the default strategy.
#[derive(Clone, Debug, Default)]
struct Decisions(Arc<AtomicUsize>);

impl Strategy for Decisions {
    fn decide(&self, contention: &Contention) -> Decision {
        self.0.fetch_add(1, Ordering::Relaxed);
        strategy::wait().decide(contention)
    }

    fn name(&self) -> std::borrow::Cow<'static, str> {
        "decisions".into()
    }
}

/// The waiters for a plain lock are in the local queue. The others are in the queue of the store.
#[tokio::test(start_paused = true)]
async fn waiters_that_are_notified_wake_once_a_second() {
    const WAITERS: usize = 100;
    // The strategy decides before the first request and after its answer. In the local queue it decides once more.
    for (kind, times) in [(Kind::Reentrant, 34), (Kind::Fair, 31), (Kind::Write, 31)] {
        let (locks, decisions) = (LockManager::in_memory(), Decisions::default());
        let holder = locks.request("k", kind).acquire().await.unwrap();
        let request = || locks.request("k", kind).strategy(decisions.clone());
        let waiting: Vec<_> = (0..WAITERS).map(|_| tokio::spawn(request().run(async {}))).collect();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let each = decisions.0.load(Ordering::Relaxed) / WAITERS;
        assert_eq!(each, times, "{kind}, in 30 s");
        let freed = Instant::now();
        holder.release().await.unwrap();
        for waiter in waiting {
            waiter.await.unwrap().unwrap();
        }
        assert_eq!(freed.elapsed(), Duration::ZERO, "{kind}");
    }
}

/// Waiters behind the first two check the queue only once a second.
#[tokio::test(start_paused = true)]
async fn the_second_soon_asks_in_place_of_a_head_that_nobody_polls() {
    let (locks, store) = Scripted::manager(|_| {});
    let guard = store.stranger().lock("k").acquire().await.unwrap();
    let request = || locks.lock("k").strategy(strategy::wait());
    let mut head = Box::pin(request().acquire());
    assert!(tokio::time::timeout(millis(2_050), &mut head).await.is_err());
    let tries = store.tries().len();
    let next = tokio::spawn(request().acquire());
    let later = tokio::spawn(request().acquire());
    tokio::time::sleep(millis(1_450)).await;
    assert_eq!(store.tries().len(), tries + 1, "it was late for a second");
    drop((guard, head));
    drop(next.await.unwrap().unwrap());
    drop(later.await.unwrap().unwrap());
}

/// When the waiter is notified of its turn, it is in a pause of a second. A failing store sends no notification.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_once_is_asked_again_soon() {
    let (locks, store) = Scripted::manager(|_| {});
    store.script().loses_changes = true;
    // The holder's lease is longer than the waiter requests, so the grant is not handed off.
    let guard = locks.lock("k").ttl(HOUR).acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("k").strategy(strategy::wait()).acquire());
    tokio::time::sleep(millis(2_550)).await;
    store.script().acquire.push_back(Err(no_answer()));
    let (freed, tries) = (Instant::now(), store.tries().len());
    guard.release().await.unwrap();
    // The failed request is followed by a release. The answer to the release would wake the waiter, so it comes late.
    store.script().release_takes = HOUR;
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(store.tries().len() - tries, 2, "one that failed, and one more");
    assert!(freed.elapsed() <= millis(200), "{:?}", freed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_strategy_that_has_enough_ends_a_wait_in_order() {
    let (locks, store) = Scripted::manager(|_| {});
    let holder = locks.fair("k").acquire().await.unwrap();
    let start = Instant::now();
    let error = locks.fair("k").strategy(Every(millis(100), millis(750))).acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.position()), (LockErrorKind::TimedOut, Some(0)));
    assert_eq!(start.elapsed(), millis(750));
    let error = locks.fair("k").wait(millis(2_500)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::TimedOut);
    assert_eq!(start.elapsed(), millis(3_250));
    assert_eq!(store.tries_and_waits(), (1 + 2 * 2, 2), "each with a last try");
    holder.release().await.unwrap();
    settle().await;
    assert!(is_free(&locks, "k").await, "they left the queue");
}

#[tokio::test(start_paused = true)]
async fn newcomers_are_shed_while_they_come_too_fast() {
    for kind in [Kind::Reentrant, Kind::Fair] {
        let locks = LockManager::in_memory();
        let strategy = || strategy::shed_above(strategy::retry(), 3);
        let request = || locks.request("k", kind).strategy(strategy()).wait(millis(500));
        for _ in 0..20 {
            request().acquire().await.expect("nobody holds it").release().await.unwrap();
        }
        let held = locks.request("k", kind).acquire().await.unwrap();
        let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(request().acquire())).collect();
        tokio::time::sleep(millis(10)).await;
        let shed = request().acquire().await.unwrap_err();
        assert_eq!(shed.kind(), LockErrorKind::Overloaded, "{kind}: the fourth in a second");
        let skips = locks.request("k", kind).strategy(strategy::shed_above(strategy::skip(), 3));
        assert!(skips.acquire().await.unwrap_err().is_skipped(), "{kind}: it would not wait");
        for one in waiting {
            assert!(one.await.unwrap().unwrap_err().is_timed_out(), "{kind}: those before wait on");
        }
        let _other = locks.request("l", kind).acquire().await.unwrap();
        let other = locks.request("l", kind).strategy(strategy()).wait(millis(20)).acquire().await;
        assert!(other.unwrap_err().is_timed_out(), "{kind}: another key has a rate of its own");
        tokio::time::sleep(millis(2_000)).await;
        assert!(request().acquire().await.unwrap_err().is_timed_out(), "{kind}: it is quiet again");
        drop(held);
    }
}
