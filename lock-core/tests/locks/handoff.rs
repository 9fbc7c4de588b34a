//! Tests hand-offs inside a process, entries in the store's queue, and wake-ups.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::{Kind, LockError, LockErrorKind, LockGuard, LockManager, LockRequest, strategy};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::millis;
use crate::queue_store::QueueStore;

const HOUR: Duration = Duration::from_secs(3_600);

fn wait(locks: &LockManager, key: &str) -> lock_core::LockRequest {
    locks.lock(key).strategy(strategy::wait())
}

/// Runs `tasks` tasks of each manager. Each task acquires the lock `times` times. Returns the number of the manager for
/// each hold, in order.
async fn load(managers: &[LockManager], tasks: usize, times: usize, body: Duration) -> Vec<usize> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let alone = Arc::new(AtomicBool::new(false));
    let mut set = JoinSet::new();
    for (number, locks) in managers.iter().enumerate() {
        for _ in 0..tasks {
            let (locks, order, alone) = (locks.clone(), Arc::clone(&order), Arc::clone(&alone));
            set.spawn(async move {
                for _ in 0..times {
                    let guard = wait(&locks, "k").acquire().await.unwrap();
                    assert!(!alone.swap(true, Ordering::SeqCst), "two at the same time");
                    order.lock().unwrap().push(number);
                    tokio::time::sleep(body).await;
                    assert!(guard.is_held() && alone.swap(false, Ordering::SeqCst));
                    guard.release().await.unwrap();
                }
            });
        }
    }
    while let Some(done) = set.join_next().await {
        done.unwrap();
    }
    std::mem::take(&mut *order.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn turns_inside_a_process_cost_the_store_nothing() {
    let store = QueueStore::default();
    let order = load(&[store.manager()], 20, 50, Duration::ZERO).await;
    assert_eq!(order.len(), 1_000);
    // The store gets the first try of each task, and the requests of the head of the local queue.
    assert!(store.calls().all() <= 30, "{:?}", store.calls());
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_process_are_served_in_order_of_arrival() {
    let store = QueueStore::default();
    let locks = store.manager();
    let first = locks.lock("k").acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut set = JoinSet::new();
    for number in 0..10 {
        let (request, order) = (wait(&locks, "k"), Arc::clone(&order));
        set.spawn(async move {
            let guard = request.acquire().await.unwrap();
            order.lock().unwrap().push(number);
            drop(guard);
        });
        tokio::time::sleep(millis(1)).await;
    }
    drop(first);
    while set.join_next().await.is_some() {}
    assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn the_turns_end_after_a_slice_when_others_wait() {
    let store = QueueStore::default();
    let managers = [store.manager(), store.manager(), store.manager()];
    let order = load(&managers, 8, 100, Duration::ZERO).await;
    assert_eq!(order.len(), 2_400);
    let runs: Vec<usize> = order.chunk_by(|one, other| one == other).map(<[usize]>::len).collect();
    // A manager holds the key at most 66 times in a row: the first hold, one hand-off that may precede the notification
    // that others wait, and 64 hand-offs after it.
    assert!(runs.iter().all(|run| *run <= 66), "the longest slices: {runs:?}");
    let calls = store.calls().all();
    assert!(calls <= 24 * 2 + 3 * (2_400 / 64 + 10), "{calls} calls");
    assert!(store.is_empty());

    // Here the limit is the time: with bodies of 4 ms, three hand-offs are possible within 10 ms.
    let order = load(&managers, 4, 20, millis(4)).await;
    let runs: Vec<usize> = order.chunk_by(|one, other| one == other).map(<[usize]>::len).collect();
    assert!(runs[1..].iter().all(|run| *run <= 4), "{runs:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_word_from_the_store_everybody_is_served_by_their_beats() {
    let store = QueueStore::default();
    let managers = [store.manager(), store.manager()];
    store.deaf(true);
    let start = Instant::now();
    let order = load(&managers, 2, 5, millis(50)).await;
    assert_eq!(order.len(), 20);
    // A served waiter receives the grant with its next heartbeat, at most two thirds of a second later.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(store.calls().beats > 0 && store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_told_lately_of_others_ends_its_turns_within_a_second() {
    let store = QueueStore::default();
    let (here, there) = (store.manager(), store.manager());
    store.deaf(true);
    let stop = Arc::new(AtomicBool::new(false));
    let mut set = JoinSet::new();
    for _ in 0..4 {
        let (locks, stop) = (here.clone(), Arc::clone(&stop));
        set.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let guard = wait(&locks, "k").acquire().await.unwrap();
                tokio::time::sleep(millis(1)).await;
                guard.release().await.unwrap();
            }
        });
    }
    tokio::time::sleep(millis(500)).await;
    let start = Instant::now();
    // The holder is not notified of the waiter. Without the limit on hand-offs, they would continue for ever.
    let guard = wait(&there, "k").ttl(Duration::from_secs(30)).acquire().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    stop.store(true, Ordering::SeqCst);
    drop(guard);
    while set.join_next().await.is_some() {}
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn those_who_give_up_leave_nothing_behind_and_wake_the_next() {
    let store = QueueStore::default();
    let (here, there) = (store.manager(), store.manager());
    for round in 0..20 {
        let holder = there.lock("k").acquire().await.unwrap();
        let waiting: Vec<_> = (0..100).map(|_| tokio::spawn(wait(&here, "k").acquire())).collect();
        let last = tokio::spawn(wait(&here, "k").acquire());
        tokio::time::sleep(millis(10)).await;
        assert_eq!(store.queued(), 1, "one place for a process");
        // The waiters are dropped a little before, during, or a little after the release.
        let release = tokio::spawn(holder.release());
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        // A task may already have the lock. Its guard is then dropped with the task.
        drop(waiting);
        release.await.unwrap().unwrap();
        let start = Instant::now();
        let guard = last.await.unwrap().unwrap();
        assert!(start.elapsed() < millis(10), "round {round}: {:?}", start.elapsed());
        guard.release().await.unwrap();
        tokio::time::sleep(millis(10)).await;
        assert!(store.is_empty(), "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_keeps_its_place_when_its_first_waiter_gives_up() {
    let store = QueueStore::default();
    let (here, there, third) = (store.manager(), store.manager(), store.manager());
    let holder = there.lock("k").acquire().await.unwrap();
    let head = tokio::spawn(wait(&here, "k").acquire());
    tokio::time::sleep(millis(10)).await;
    let second = tokio::spawn(wait(&here, "k").ttl(Duration::from_secs(20)).acquire());
    tokio::time::sleep(millis(10)).await;
    let behind = tokio::spawn(wait(&third, "k").acquire());
    tokio::time::sleep(millis(10)).await;
    head.abort();
    tokio::time::sleep(millis(10)).await;
    assert_eq!(store.queued(), 2);
    holder.release().await.unwrap();
    tokio::time::sleep(millis(1)).await;
    assert!(second.is_finished() && !behind.is_finished());
    // The queue entry has the lease of the waiter that gave up. A renewal changes this lease to that of the second
    // waiter.
    let guard = second.await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(guard.is_held() && !behind.is_finished());
    drop(guard);
    drop(behind.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_nobody_takes_goes_to_the_next() {
    let store = QueueStore::default();
    let locks = store.manager();
    let holder = locks.lock("k").acquire().await.unwrap();
    // This waiter is polled once, and then its task does something else.
    let mut stuck = Box::pin(wait(&locks, "k").acquire());
    assert!(tokio::time::timeout(millis(5), &mut stuck).await.is_err());
    let next = tokio::spawn(wait(&locks, "k").acquire());
    tokio::time::sleep(millis(5)).await;
    holder.release().await.unwrap();
    let start = Instant::now();
    let guard = next.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    guard.release().await.unwrap();
    drop(stuck.await.unwrap());
    tokio::time::sleep(millis(10)).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_head_that_nobody_polls_holds_up_nobody_for_long() {
    let store = QueueStore::default();
    let (locks, other) = (store.manager(), store.manager());
    let holder = other.lock("k").acquire().await.unwrap();
    let mut stuck = Box::pin(wait(&locks, "k").acquire());
    assert!(tokio::time::timeout(millis(5), &mut stuck).await.is_err());
    let next = tokio::spawn(wait(&locks, "k").acquire());
    tokio::time::sleep(millis(5)).await;
    holder.release().await.unwrap();
    let guard = tokio::time::timeout(Duration::from_secs(8), next).await.expect("in time").unwrap().unwrap();
    guard.release().await.unwrap();
    drop(stuck.await.unwrap());
    tokio::time::sleep(millis(10)).await;
    assert!(store.is_empty());
}

/// Returns a waiter that was polled once and is never polled again.
async fn unpolled(
    request: LockRequest,
) -> Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>> {
    let mut waiter: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(request.acquire());
    assert!(tokio::time::timeout(millis(5), &mut waiter).await.is_err(), "it waits");
    waiter
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_nobody_takes_goes_back_to_the_store() {
    let (queue, memory) = (QueueStore::default(), Memory::new());
    let of_memory = || LockManager::builder(memory.clone()).build().unwrap();
    for (here, there) in [(queue.manager(), queue.manager()), (of_memory(), of_memory())] {
        let holder = here.lock("k").ttl(HOUR).acquire().await.unwrap();
        let stuck = unpolled(wait(&here, "k").ttl(HOUR)).await;
        let other = tokio::spawn(wait(&there, "k").acquire());
        tokio::time::sleep(millis(5)).await;
        holder.release().await.unwrap();
        let start = Instant::now();
        let guard = other.await.unwrap().unwrap();
        assert!(start.elapsed() < millis(500), "{:?}", start.elapsed());
        guard.release().await.unwrap();
        drop(stuck.await.unwrap());
        tokio::time::sleep(millis(10)).await;
        assert!(here.lock("k").try_acquire().await.unwrap().is_some(), "nothing is left");
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_that_nobody_polls_take_no_time_from_others() {
    for locks in [QueueStore::default().manager(), LockManager::in_memory()] {
        let mut rates = Vec::new();
        for stuck in [0, 3] {
            let holder = locks.lock("k").acquire().await.unwrap();
            let mut waiting = Vec::new();
            for _ in 0..stuck {
                waiting.push(unpolled(wait(&locks, "k")).await);
            }
            drop(holder);
            let (turns, stop) = (Arc::new(AtomicUsize::new(0)), Instant::now() + Duration::from_secs(10));
            let mut set = JoinSet::new();
            for _ in 0..8 {
                let (locks, turns) = (locks.clone(), Arc::clone(&turns));
                set.spawn(async move {
                    while Instant::now() < stop {
                        let guard = wait(&locks, "k").acquire().await.unwrap();
                        turns.fetch_add(1, Ordering::SeqCst);
                        tokio::time::sleep(millis(1)).await;
                        guard.release().await.unwrap();
                    }
                });
            }
            set.join_all().await;
            rates.push(turns.load(Ordering::SeqCst));
            // These waiters get the lock as fast as a newcomer.
            for waiter in waiting {
                drop(tokio::time::timeout(millis(10), waiter).await.expect("it is free").unwrap());
            }
        }
        assert!(rates[1] * 10 >= rates[0] * 8, "{rates:?} turns");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_was_passed_over_lines_up_again_behind_those_who_wait() {
    let store = QueueStore::default();
    let locks = store.manager();
    let holder = locks.lock("k").acquire().await.unwrap();
    let stuck = unpolled(wait(&locks, "k")).await;
    let next = tokio::spawn(wait(&locks, "k").acquire());
    let last = tokio::spawn(wait(&locks, "k").acquire());
    tokio::time::sleep(millis(5)).await;
    holder.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    let stuck = tokio::spawn(stuck);
    tokio::time::sleep(millis(5)).await;
    next.release().await.unwrap();
    let last = last.await.unwrap().unwrap();
    assert!(!stuck.is_finished());
    let asked = store.calls().all();
    last.release().await.unwrap();
    drop(stuck.await.unwrap().unwrap());
    tokio::time::sleep(millis(10)).await;
    assert_eq!(store.calls().all(), asked + 1, "it was a turn, and one release");
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_does_not_wait_for_a_head_that_nobody_polls() {
    let store = QueueStore::default();
    let (locks, other) = (store.manager(), store.manager());
    let holder = other.lock("k").acquire().await.unwrap();
    let stuck = unpolled(wait(&locks, "k")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    holder.release().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let start = Instant::now();
    let guard = wait(&locks, "k").acquire().await.unwrap();
    assert!(start.elapsed() < millis(10), "{:?}", start.elapsed());
    guard.release().await.unwrap();
    drop(stuck);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_told_to_ask_and_is_not_polled_makes_room_for_the_next() {
    let store = QueueStore::default();
    let locks = store.manager();
    // There is no hand-off, because the holder's lease is longer than the head requests. Only the store can notify the
    // head.
    let holder = locks.lock("k").renew(false).ttl(millis(600)).acquire().await.unwrap();
    let stuck = unpolled(wait(&locks, "k").ttl(millis(100))).await;
    let next = tokio::spawn(wait(&locks, "k").acquire());
    tokio::time::sleep(millis(50)).await;
    // The lease is longer than the head requests, so the grant is released to the store.
    holder.release().await.unwrap();
    let start = Instant::now();
    let guard = next.await.unwrap().unwrap();
    assert!(start.elapsed() < millis(300), "{:?}", start.elapsed());
    guard.release().await.unwrap();
    drop(stuck);
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_grant_was_taken_by_force_is_worth_nothing() {
    let store = Memory::new();
    let [here, there] = std::array::from_fn(|_| LockManager::builder(store.clone()).build().unwrap());
    let holder = here.lock("k").ttl(HOUR).acquire().await.unwrap();
    let id = there.locks().await.unwrap().locks[0].holders[0].id.clone();
    let mut next = unpolled(wait(&here, "k").ttl(HOUR)).await;
    holder.release().await.unwrap();
    assert!(there.force_release("k", &id, "stuck").await.unwrap());
    let other = there.lock("k").ttl(HOUR).acquire().await.unwrap();
    assert!(tokio::time::timeout(millis(100), &mut next).await.is_err(), "two at the same time");
    other.release().await.unwrap();
    assert!(next.await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_place_never_brings_a_longer_lease_than_its_last_waiter_asks_for() {
    let store = QueueStore::default();
    let (here, there) = (store.manager(), store.manager());
    let holder = there.lock("k").acquire().await.unwrap();
    let first = tokio::spawn(wait(&here, "k").ttl(Duration::from_secs(60)).acquire());
    tokio::time::sleep(millis(10)).await;
    let second = tokio::spawn(wait(&here, "k").ttl(Duration::from_secs(1)).acquire());
    store.heartbeat_takes(millis(300));
    while store.calls().beats == 0 {
        tokio::time::sleep(millis(1)).await;
    }
    // The heartbeat of the queue entry is in flight now.
    first.abort();
    holder.release().await.unwrap();
    let guard = second.await.unwrap().unwrap();
    for _ in 0..20 {
        tokio::time::sleep(millis(50)).await;
        let left = store.remaining("k");
        assert!(left <= millis(1_100), "a crash would keep others out for {left:?}");
    }
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_back_a_turn_that_nobody_takes() {
    let store = QueueStore::default();
    let (locks, other) = (store.manager(), store.manager());
    let holder = locks.lock("k").ttl(HOUR).acquire().await.unwrap();
    let stuck = unpolled(wait(&locks, "k").ttl(HOUR)).await;
    holder.release().await.unwrap();
    let report = locks.shutdown(Duration::ZERO).await;
    assert_eq!((report.revoked.len(), report.unanswered), (0, 1), "the one that nobody polls");
    assert!(other.lock("k").try_acquire().await.unwrap().is_some());
    assert_eq!(stuck.await.unwrap_err().kind(), LockErrorKind::ShuttingDown);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_nobody_polls_for_costs_others_two_seconds_at_most() {
    let store = Memory::new();
    let [first, second, third] =
        std::array::from_fn(|_| LockManager::builder(store.clone()).build().unwrap());
    for kind in [Kind::Reentrant, Kind::Fair, Kind::Write, Kind::Semaphore { permits: 1 }] {
        for late in [0, 10_000] {
            let ask = |locks: &LockManager| {
                locks.request(format!("{kind:?}{late}"), kind).ttl(HOUR).strategy(strategy::wait())
            };
            let holder = ask(&first).acquire().await.unwrap();
            let stuck = unpolled(ask(&second)).await;
            let next = tokio::spawn(ask(&third).acquire());
            tokio::time::sleep(millis(5 + late)).await;
            holder.release().await.unwrap();
            let start = Instant::now();
            drop(next.await.unwrap().unwrap());
            assert!(start.elapsed() <= millis(2_500), "{kind:?} {late}: {:?}", start.elapsed());
            drop(stuck);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_hands_over_too_and_a_lost_one_does_not() {
    let store = QueueStore::default();
    let locks = store.manager();
    let first = locks.lock("k").acquire().await.unwrap();
    let second = tokio::spawn(wait(&locks, "k").acquire());
    tokio::time::sleep(millis(5)).await;
    let before = store.calls();
    drop(first);
    let second = second.await.unwrap().unwrap();
    assert_eq!(store.calls(), before, "no word to the store");

    let brief = wait(&locks, "k").ttl(millis(100)).renew(false);
    let third = tokio::spawn(brief.acquire());
    tokio::time::sleep(millis(5)).await;
    drop(second);
    let third = third.await.unwrap().unwrap();
    let fourth = tokio::spawn(wait(&locks, "k").acquire());
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(!third.is_held(), "its lease is over");
    let fourth = fourth.await.unwrap().unwrap();
    assert!(third.release().await.unwrap_err().is_lost() && fourth.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_dropped_half_way_hands_nothing_over() {
    let store = QueueStore::default();
    let locks = store.manager();
    let first = locks.lock("k").acquire().await.unwrap();
    store.release_takes(millis(10));
    let mut release = Box::pin(first.release());
    assert!(tokio::time::timeout(millis(1), &mut release).await.is_err(), "it is on its way");
    let second = tokio::spawn(wait(&locks, "k").acquire());
    tokio::time::sleep(millis(1)).await;
    drop(release);
    let second = second.await.unwrap().unwrap();
    tokio::time::sleep(millis(100)).await;
    assert!(
        store.manager().lock("k").try_acquire().await.unwrap().is_none(),
        "the store knows of the second"
    );
    second.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_turn_gives_no_less_of_a_lease_than_was_asked_for() {
    let store = QueueStore::default();
    let locks = store.manager();
    for (ttl, renew) in [(10_000, true), (20_000, true), (10_000, false), (300, false)] {
        let first = locks.lock("k").ttl(millis(6_000)).acquire().await.unwrap();
        let request = wait(&locks, "k").ttl(millis(ttl)).renew(renew);
        let second = tokio::spawn(request.acquire());
        tokio::time::sleep(millis(500)).await;
        first.release().await.unwrap();
        let second = second.await.unwrap().unwrap();
        let left = second.remaining();
        let least = if renew { ttl * 2 / 3 } else { ttl - 5 };
        assert!(left >= millis(least), "{left:?} of {ttl} ms, renewed: {renew}");
        second.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn fencing_tokens_grow_from_turn_to_turn() {
    let store = QueueStore::default();
    let managers = [store.manager(), store.manager()];
    let last = Arc::new(Mutex::new(0));
    let mut set = JoinSet::new();
    for number in 0..16 {
        let (locks, last) = (managers[number % 2].clone(), Arc::clone(&last));
        set.spawn(async move {
            for round in 0..50 {
                let request = wait(&locks, "k").fencing(round % 3 == 0);
                let guard = request.acquire().await.unwrap();
                if (number + round) % 4 != 1 {
                    let token = guard.fencing_token().await.unwrap().get();
                    assert_eq!(token, guard.fencing_token().await.unwrap().get(), "one for each turn");
                    let mut last = last.lock().unwrap();
                    assert!(token > *last, "{token} after {last}");
                    *last = token;
                }
                if round % 5 == 0 {
                    tokio::time::sleep(Duration::from_micros(1_500)).await;
                }
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = set.join_next().await {
        done.unwrap();
    }
    let fences = store.calls().fences;
    assert!(fences > 0, "where time stands still, the store numbers");
}

#[tokio::test(start_paused = true)]
async fn turns_are_numbered_as_far_as_the_store_has_confirmed_and_it_is_asked_once_for_more() {
    let store = QueueStore::default();
    let locks = store.manager();
    let mut guard = wait(&locks, "k").fencing(true).acquire().await.unwrap();
    let mut last = guard.fencing_token().await.unwrap();
    let asked = store.calls().fences;
    for _ in 0..100 {
        let next = tokio::spawn(wait(&locks, "k").fencing(true).acquire());
        tokio::time::sleep(millis(1)).await;
        drop(guard);
        guard = next.await.unwrap().unwrap();
        let token = guard.fencing_token().await.unwrap();
        assert_eq!(token.get(), last.get() + 1);
        last = token;
    }
    assert_eq!(store.calls().fences, asked + 1, "one answer is enough for all the microseconds before it");
    // The store knows the handed-out tokens before another owner gets the key.
    guard.release().await.unwrap();
    let other = store.manager().lock("k").fencing(true).acquire().await.unwrap();
    assert!(other.fencing_token().await.unwrap() > last);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_wait_never_lines_up() {
    let store = QueueStore::default();
    let (here, there) = (store.manager(), store.manager());
    let guard = there.lock("k").acquire().await.unwrap();
    for request in [here.lock("k"), here.fair("k")] {
        assert!(request.clone().try_acquire().await.unwrap().is_none());
        let error = request.strategy(strategy::fail_fast()).acquire().await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Contended);
    }
    assert_eq!((store.queued(), store.calls().enqueues), (0, 0));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn the_error_says_how_many_wait_and_how_many_are_before() {
    let store = QueueStore::default();
    let managers: Vec<_> = (0..4).map(|_| store.manager()).collect();
    let _guard = managers[0].fair("k").acquire().await.unwrap();
    let waiting: Vec<_> = managers[1..3]
        .iter()
        .map(|locks| tokio::spawn(locks.fair("k").strategy(strategy::wait()).acquire()))
        .collect();
    tokio::time::sleep(millis(10)).await;
    let error = managers[3].fair("k").wait(millis(50)).acquire().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.waiters(), error.position()),
        (LockErrorKind::TimedOut, Some(2), Some(2))
    );
    let shed = managers[3].fair("k").strategy(strategy::shed(strategy::retry(), 2));
    assert_eq!(shed.acquire().await.unwrap_err().kind(), LockErrorKind::Overloaded);
    tokio::time::sleep(millis(10)).await;
    assert_eq!(store.queued(), 2);
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_takes_no_turns_and_wakes_those_who_wait() {
    let store = QueueStore::default();
    let (locks, other) = (store.manager(), store.manager());
    let guard = locks.lock("k").acquire().await.unwrap();
    let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(wait(&locks, "k").acquire())).collect();
    tokio::time::sleep(millis(10)).await;
    let closing = tokio::spawn(async move { locks.shutdown(HOUR).await });
    tokio::time::sleep(millis(10)).await;
    guard.release().await.unwrap();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), LockErrorKind::ShuttingDown);
    }
    let report = closing.await.unwrap();
    assert!(report.revoked.is_empty() && report.unanswered == 0);
    assert!(other.lock("k").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn every_process_gets_its_share() {
    let store = QueueStore::default();
    let shares = Arc::new(Mutex::new(HashMap::<usize, usize>::new()));
    let total = Arc::new(AtomicUsize::new(0));
    let mut set = JoinSet::new();
    for number in 0..4 {
        let locks = store.manager();
        for _ in 0..8 {
            let (locks, shares, total) = (locks.clone(), Arc::clone(&shares), Arc::clone(&total));
            set.spawn(async move {
                while total.fetch_add(1, Ordering::SeqCst) < 20_000 {
                    let guard = wait(&locks, "k").acquire().await.unwrap();
                    *shares.lock().unwrap().entry(number).or_default() += 1;
                    guard.release().await.unwrap();
                }
            });
        }
    }
    while set.join_next().await.is_some() {}
    for (process, share) in &*shares.lock().unwrap() {
        assert!((4_000..=6_000).contains(share), "process {process} had {share} of 20,000");
    }
}
