//! Tests for past bugs, which appeared under faults, with unusual requests, or with futures that were not polled.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::LockManager;
use lock_core::backend::memory::Memory;
use lock_core::strategy::{self, Backoff, Contention, Decision, Strategy};
use lock_core::testkit::{Fault, Flaky, FlakyControl, Operation};
use tokio::time::Instant;

use crate::millis;
use crate::queue_store::QueueStore;

fn wait(locks: &LockManager, key: &str) -> lock_core::LockRequest {
    locks.lock(key).strategy(strategy::wait())
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn flaky(store: &QueueStore) -> (LockManager, FlakyControl) {
    let (flaky, control) = Flaky::new(store.clone());
    (LockManager::builder(flaky).build().unwrap(), control)
}

/// Polls a future for 5 ms, and keeps it.
async fn poll_a_little<F: Future>(future: &mut std::pin::Pin<Box<F>>) {
    assert!(tokio::time::timeout(millis(5), future).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_fence_failed_goes_on_waiting_for_the_store() {
    let store = QueueStore::default();
    let (locks, control) = flaky(&store);
    let other = store.manager();
    let holder = other.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(wait(&locks, "k").fencing(true).acquire());
    tokio::time::sleep(millis(10)).await;
    control.fail_next(Operation::Fence, Fault::Refuse, 1);
    holder.release().await.unwrap();
    drop(tokio::time::timeout(secs(600), waiting).await.expect("it hangs for ever").unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_given_back_is_not_asked_for_again() {
    let store = QueueStore::default();
    let (locks, control) = flaky(&store);
    let other = store.manager();
    // The request for a token gets no answer, and neither does the release that follows.
    control.fail_next(Operation::Fence, Fault::LoseAnswer, 1);
    control.fail_next(Operation::Release, Fault::LoseRequest, 2);
    let guard = locks.fair("k").strategy(strategy::wait()).fencing(true).acquire().await.unwrap();
    tokio::time::sleep(millis(500)).await;
    assert!(guard.is_held());
    assert!(other.lock("k").try_acquire().await.unwrap().is_none(), "two holders");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_not_polled_does_not_hang_those_behind_it() {
    let store = QueueStore::default();
    let (here, there) = (store.manager(), store.manager());
    let holder = there.lock("k").acquire().await.unwrap();
    let mut stuck = Box::pin(wait(&here, "k").acquire());
    poll_a_little(&mut stuck).await;
    let next = tokio::spawn(wait(&here, "k").acquire());
    tokio::time::sleep(millis(5)).await;
    holder.release().await.unwrap();
    tokio::time::sleep(secs(60)).await;
    assert!(next.is_finished(), "the key is free for a minute, and the second in line waits");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_not_polled_does_not_hang_those_behind_it_on_memory() {
    let store = Memory::new();
    let manager = || LockManager::builder(store.clone()).build().unwrap();
    let (here, there) = (manager(), manager());
    let holder = there.lock("k").acquire().await.unwrap();
    let mut stuck = Box::pin(wait(&here, "k").acquire());
    poll_a_little(&mut stuck).await;
    let next = tokio::spawn(wait(&here, "k").acquire());
    tokio::time::sleep(millis(5)).await;
    holder.release().await.unwrap();
    tokio::time::sleep(secs(60)).await;
    assert!(next.is_finished(), "the key is free for a minute, and the second in line waits");
}

/// The key becomes free when the lease expires, so no release notifies a waiter.
#[tokio::test(start_paused = true)]
async fn a_first_waiter_that_is_not_polled_hides_no_end_of_a_lease() {
    let locks = LockManager::in_memory();
    let request = || locks.fair("k").strategy(strategy::wait()).acquire();
    let holder = locks.fair("k").ttl(secs(5)).renew(false).acquire().await.unwrap();
    let (mut first, mut second) = (Box::pin(request()), Box::pin(request()));
    poll_a_little(&mut first).await;
    poll_a_little(&mut second).await;
    let third = tokio::spawn(request());
    tokio::time::sleep(secs(5)).await;
    assert!(!holder.is_held());
    // The first two waiters are not polled. Each of them delays the third by up to two seconds.
    let third = tokio::time::timeout(millis(5_000), third).await.expect("in time").unwrap();
    assert!(third.unwrap().is_held());
}

/// Later waiters do not cause the rejection of a waiter that was already admitted to the queue.
#[tokio::test(start_paused = true)]
async fn shed_counts_on_arrival_only() {
    let locks = LockManager::in_memory();
    let holder = locks.lock("k").acquire().await.unwrap();
    let joins = |strategy: Arc<dyn Strategy>| tokio::spawn(locks.lock("k").strategy(strategy).acquire());
    let mut line = vec![joins(Arc::new(strategy::retry()))];
    tokio::time::sleep(millis(50)).await;
    line.push(joins(Arc::new(strategy::shed(strategy::retry(), 2))));
    for _ in 0..3 {
        tokio::task::yield_now().await;
        line.push(joins(Arc::new(strategy::retry())));
    }
    tokio::time::sleep(secs(1)).await;
    assert!(line.iter().all(|waits| !waits.is_finished()), "nobody was turned away");
    drop(holder);
    for waits in line {
        drop(waits.await.unwrap().expect("its turn comes"));
    }
}

/// The number of waiters in this process is known before the request. The number in other processes is known after the
/// answer.
#[tokio::test(start_paused = true)]
async fn shed_counts_those_who_wait_in_other_processes() {
    let store = QueueStore::default();
    let (here, there) = (store.manager(), store.manager());
    let holder = there.lock("k").acquire().await.unwrap();
    let line: Vec<_> =
        (0..3).map(|_| tokio::spawn(there.fair("k").strategy(strategy::wait()).acquire())).collect();
    tokio::time::sleep(millis(50)).await;
    assert!(here.lock("k").try_acquire().await.unwrap().is_none(), "it is known to be held from here on");
    for _ in 0..2 {
        let request = here.lock("k").strategy(strategy::shed(strategy::retry(), 2)).acquire();
        let error = tokio::time::timeout(millis(50), request).await.expect("at once").unwrap_err();
        assert_eq!(error.kind(), lock_core::LockErrorKind::Overloaded, "{error}");
    }
    line.iter().for_each(tokio::task::JoinHandle::abort);
    drop(holder);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_changed_hands_is_not_longer_than_the_store_says() {
    let store = QueueStore::default();
    let (locks, control) = flaky(&store);
    let other = store.manager();
    let holder = other.lock("k").ttl(millis(300)).acquire().await.unwrap();
    let mut first = Box::pin(wait(&locks, "k").ttl(secs(60)).acquire());
    poll_a_little(&mut first).await;
    let mut second = Box::pin(wait(&locks, "k").ttl(millis(100)).acquire());
    poll_a_little(&mut second).await;
    let mut third = Box::pin(wait(&locks, "k").ttl(secs(60)).acquire());
    poll_a_little(&mut third).await;
    drop(first);
    // The second waiter now owns the queue entry. Its heartbeat arrives, but the answer does not. Then the waiter is
    // dropped.
    control.fail_next(Operation::Heartbeat, Fault::HangAnswer, 1);
    assert!(tokio::time::timeout(millis(310), &mut second).await.is_err());
    assert_eq!(control.hanging(Operation::Heartbeat), 1);
    drop(second);
    holder.release().await.unwrap();
    let third = tokio::time::timeout(millis(50), third).await.expect("it has the place").unwrap();
    let told = third.remaining();
    let mut left = Duration::ZERO;
    while third.is_held() && left < secs(1) {
        if let Some(_other) = other.lock("k").try_acquire().await.unwrap() {
            panic!(
                "two holders after {left:?}: the guard says {:?} are left, and said {told:?}",
                third.remaining()
            );
        }
        tokio::time::sleep(millis(1)).await;
        left += millis(1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_free_key_is_not_overloaded() {
    for locks in [QueueStore::default().manager(), LockManager::in_memory()] {
        let holder = locks.lock("k").acquire().await.unwrap();
        let mut waiting = Box::pin(wait(&locks, "k").acquire());
        poll_a_little(&mut waiting).await;
        wait(&locks, "k").max_waiters(1).acquire().await.unwrap_err();
        drop(waiting);
        holder.release().await.unwrap();
        tokio::time::sleep(secs(600)).await;
        for _ in 0..3 {
            wait(&locks, "k").max_waiters(1).acquire().await.expect("it is free").release().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_gets_no_token_after_its_turn_is_over() {
    let store = QueueStore::default();
    let (locks, control) = flaky(&store);
    let first = locks.lock("k").acquire().await.unwrap();
    let handle = first.handle();
    let second = tokio::spawn(wait(&locks, "k").acquire());
    tokio::time::sleep(millis(5)).await;
    control.fail_next(Operation::Fence, Fault::Hang, 1);
    let late = tokio::spawn(async move { handle.fencing_token().await });
    tokio::time::sleep(millis(5)).await;
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    let token = second.fencing_token().await.unwrap();
    control.heal();
    if let Ok(stale) = late.await.unwrap() {
        assert!(stale < token, "the one before has {stale}, the one who holds has {token}");
    }
}

async fn starved(locks: LockManager) -> (usize, Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicUsize::new(0));
    let mut set = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let (locks, stop, served) = (locks.clone(), Arc::clone(&stop), Arc::clone(&served));
        set.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let guard = locks.fair("k").strategy(strategy::wait()).acquire().await.unwrap();
                served.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(millis(5)).await;
                guard.release().await.unwrap();
            }
        });
    }
    tokio::time::sleep(millis(20)).await;
    let (before, start) = (served.load(Ordering::SeqCst), Instant::now());
    let got = tokio::time::timeout(secs(20), wait(&locks, "k").acquire()).await;
    let waited = start.elapsed();
    stop.store(true, Ordering::SeqCst);
    drop(got);
    while set.join_next().await.is_some() {}
    (served.load(Ordering::SeqCst) - before, waited)
}

#[tokio::test(start_paused = true)]
async fn a_plain_lock_is_not_starved_by_fair_ones_of_its_process() {
    let mut worst = Duration::ZERO;
    for locks in [QueueStore::default().manager(), LockManager::in_memory()] {
        let (_, waited) = starved(locks).await;
        worst = worst.max(waited);
    }
    assert!(worst < secs(20), "starved");
}

#[derive(Debug)]
struct Zero(AtomicUsize);
impl Strategy for Zero {
    fn decide(&self, contention: &Contention) -> Decision {
        self.0.fetch_add(1, Ordering::SeqCst);
        if contention.waited > secs(2) || self.0.load(Ordering::SeqCst) > 200_000 {
            return Decision::Fail;
        }
        Decision::RetryAfter(Duration::ZERO)
    }
    fn name(&self) -> std::borrow::Cow<'static, str> {
        "zero".into()
    }
}

#[derive(Debug)]
struct Shared(Arc<Zero>);
impl Strategy for Shared {
    fn decide(&self, contention: &Contention) -> Decision {
        self.0.decide(contention)
    }
    fn name(&self) -> std::borrow::Cow<'static, str> {
        "zero".into()
    }
}

#[tokio::test]
async fn a_pause_of_zero_does_not_spin() {
    let store = QueueStore::default();
    let locks = store.manager();
    let _holder = locks.lock("k").acquire().await.unwrap();
    let zero = Arc::new(Zero(AtomicUsize::new(0)));
    locks.lock("k").strategy(Shared(Arc::clone(&zero))).acquire().await.unwrap_err();
    let asked = zero.0.load(Ordering::SeqCst);
    assert!(asked < 5_000, "{asked} decisions");
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_is_no_longer_than_asked_for() {
    let store = QueueStore::default();
    let locks = store.manager();
    let first = locks.lock("k").ttl(secs(600)).acquire().await.unwrap();
    let second = tokio::spawn(wait(&locks, "k").ttl(millis(500)).renew(false).acquire());
    tokio::time::sleep(millis(500)).await;
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(second.remaining() <= millis(500), "{:?} of 500 ms", second.remaining());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_alone_behind_a_turn_that_nobody_takes() {
    let store = QueueStore::default();
    let locks = store.manager();
    let holder = locks.lock("k").acquire().await.unwrap();
    let mut stuck = Box::pin(wait(&locks, "k").acquire());
    poll_a_little(&mut stuck).await;
    holder.release().await.unwrap();
    let slow = strategy::wait().backoff(Backoff::exponential(secs(600), secs(600)));
    let start = Instant::now();
    let next = locks.lock("k").ttl(secs(5)).strategy(slow).acquire().await.unwrap();
    assert!(start.elapsed() < secs(15), "{:?}: the lease of the turn was 10 s at most", start.elapsed());
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn a11_after_one_failure_of_the_store_a_waiter_still_hears() {
    let store = QueueStore::default();
    let (locks, control) = flaky(&store);
    let other = store.manager();
    let holder = other.lock("k").acquire().await.unwrap();
    let slow = strategy::wait().backoff(Backoff::exponential(secs(600), secs(600)));
    let waiting = tokio::spawn(locks.lock("k").strategy(slow).acquire());
    tokio::time::sleep(millis(10)).await;
    assert_eq!(store.queued(), 1);
    control.fail_next(Operation::Heartbeat, Fault::Refuse, 1);
    tokio::time::sleep(secs(1)).await;
    let start = Instant::now();
    holder.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(
        start.elapsed() < secs(5),
        "{:?} on a free key, after one heartbeat that failed",
        start.elapsed()
    );
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn one_who_is_in_line_is_not_turned_down() {
    let store = QueueStore::default();
    let (locks, control) = flaky(&store);
    let holder = locks.lock("k").acquire().await.unwrap();
    let first = tokio::spawn(wait(&locks, "k").max_waiters(3).ttl(secs(30)).acquire());
    tokio::time::sleep(millis(5)).await;
    let more: Vec<_> = (0..2).map(|_| tokio::spawn(brief(wait(&locks, "k")))).collect();
    tokio::time::sleep(millis(5)).await;
    control.fail_next(Operation::Renew, Fault::Hang, 1);
    holder.release().await.unwrap();
    tokio::time::sleep(millis(5)).await;
    assert_eq!(control.hanging(Operation::Renew), 1);
    let late = tokio::spawn(brief(wait(&locks, "k")));
    tokio::time::sleep(secs(11)).await;
    // By now the lease of the grant has expired.
    control.heal();
    let answer = tokio::time::timeout(secs(60), first).await.expect("it hangs").unwrap();
    drop((more, late));
    assert!(answer.is_ok(), "{answer:?}");
}

async fn brief(request: lock_core::LockRequest) {
    drop(request.acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_line_is_not_left_behind_by_an_outage() {
    let store = QueueStore::default();
    let (locks, control) = flaky(&store);
    let holder = locks.lock("k").ttl(secs(10)).acquire().await.unwrap();
    // The waiter requests a longer lease than the grant has left, so the hand-off needs a request to the store.
    let waiting =
        tokio::spawn(locks.lock("k").ttl(secs(30)).strategy(strategy::retry().within(secs(60))).acquire());
    tokio::time::sleep(millis(5)).await;
    for operation in
        [Operation::Renew, Operation::Release, Operation::Enqueue, Operation::Acquire, Operation::Heartbeat]
    {
        control.fail_always(operation, Fault::LoseRequest);
    }
    holder.release().await.unwrap();
    waiting.await.unwrap().unwrap_err();
    control.heal();
    tokio::time::sleep(secs(600)).await;
    assert!(store.is_empty());
    // The key is free and has no waiters, so a newcomer with long pauses gets it at once.
    let slow = strategy::wait().backoff(Backoff::exponential(secs(600), secs(600)));
    let start = Instant::now();
    drop(locks.lock("k").strategy(slow).acquire().await.unwrap());
    assert!(start.elapsed() < secs(1), "{:?} for a free key", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_news_that_others_wait_is_not_forgotten_when_the_grant_begins() {
    let store = QueueStore::default();
    let (here, there) = (store.manager(), store.manager());
    let holder = there.lock("k").acquire().await.unwrap();
    let turns = Arc::new(Mutex::new(Vec::new()));
    let mut head = Box::pin(wait(&here, "k").ttl(secs(2)).acquire());
    poll_a_little(&mut head).await;
    let mut set = tokio::task::JoinSet::new();
    let start = Instant::now();
    for _ in 0..4 {
        let (here, turns) = (here.clone(), Arc::clone(&turns));
        set.spawn(async move {
            while start.elapsed() < secs(3) {
                let guard = wait(&here, "k").ttl(secs(2)).acquire().await.unwrap();
                turns.lock().unwrap().push(Instant::now());
                tokio::time::sleep(millis(1)).await;
                guard.release().await.unwrap();
            }
        });
    }
    tokio::time::sleep(millis(5)).await;
    // Two notifications arrive before the head is polled: the head has the grant, and another process has begun to
    // wait.
    holder.release().await.unwrap();
    let waits = Instant::now();
    let other = tokio::spawn(async move {
        let guard = wait(&there, "k").acquire().await.unwrap();
        let at = Instant::now();
        guard.release().await.unwrap();
        at
    });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    head.await.unwrap().release().await.unwrap();
    let waited = other.await.unwrap() - waits;
    while set.join_next().await.is_some() {}
    assert!(waited < millis(50), "{waited:?} for slices of 10 ms");
}

#[tokio::test(start_paused = true)]
async fn the_token_of_the_turn_after_the_last_number_is_larger() {
    use lock_core::backend::{Ask, Attempt, Backend};
    use lock_core::testkit::Claims;
    let store = Memory::new();
    let key = lock_core::key::Key::new("k").unwrap();
    let mut claim = Claims::new().unwrap().exclusive(&key, secs(60));
    assert!(matches!(store.acquire(&claim, Ask::Try).await.unwrap(), Attempt::Granted(_)));
    claim.handoffs = u64::from(u32::MAX);
    let last = store.fence(&claim).await.unwrap();
    // A hand-off inside the process increments this number in the same way.
    claim.handoffs += 1;
    assert!(store.fence(&claim).await.unwrap() > last, "the next holder has the token of the one before");
}

#[tokio::test(start_paused = true)]
async fn nobody_enters_a_write_lock_that_is_being_downgraded() {
    let (store, control) = Flaky::new(Memory::new());
    let locks = LockManager::builder(store).build().unwrap();
    let writer = locks.write("k").acquire().await.unwrap();
    let mut scope = None;
    writer.run(async { scope = Some(lock_core::LockScope::current()) }).await.unwrap();
    control.fail_next(Operation::Downgrade, Fault::Hang, 1);
    let downgrade = tokio::spawn(writer.downgrade());
    tokio::time::sleep(millis(5)).await;
    // A task that the writer spawned begins only now.
    let (go, wait) = tokio::sync::oneshot::channel();
    let part = locks.clone();
    let inner = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&inner);
    let nested = tokio::spawn(scope.unwrap().enter(async move {
        part.write("k")
            .strategy(strategy::fail_fast())
            .run(async move {
                seen.store(true, Ordering::SeqCst);
                wait.await.unwrap();
                seen.store(false, Ordering::SeqCst);
            })
            .await
    }));
    tokio::time::sleep(millis(5)).await;
    control.heal();
    let _reader = downgrade.await.unwrap();
    let other = locks.read("k").strategy(strategy::fail_fast()).acquire().await;
    let both = inner.load(Ordering::SeqCst) && other.is_ok();
    let _ = go.send(());
    let _ = nested.await;
    assert!(!both, "a writer's body runs beside another reader");
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_does_not_begin_max_hold_anew() {
    let locks = LockManager::in_memory();
    let start = Instant::now();
    let writer = locks.write("k").max_hold(secs(10)).acquire().await.unwrap();
    tokio::time::sleep(secs(9)).await;
    let reader = writer.downgrade().await.unwrap();
    reader.lost().await;
    assert!(start.elapsed() <= secs(10), "{:?} of max_hold 10 s", start.elapsed());
}

#[tokio::test]
async fn turns_of_a_short_ttl_on_a_long_lease_do_not_storm_the_store() {
    let store = QueueStore::default();
    let locks = store.manager();
    let holder = locks.lock("k").ttl(secs(60)).acquire().await.unwrap();
    let mut set = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let locks = locks.clone();
        set.spawn(async move {
            for _ in 0..2_000 {
                let guard = wait(&locks, "k").ttl(millis(300)).acquire().await.unwrap();
                tokio::task::yield_now().await;
                guard.release().await.unwrap();
            }
        });
    }
    tokio::time::sleep(millis(500)).await;
    let (before, start) = (store.calls().renewals, Instant::now());
    holder.release().await.unwrap();
    while set.join_next().await.is_some() {}
    let renewals = store.calls().renewals - before;
    // In addition to 100 renewals, 20 in each second are allowed, because on a slow machine a holder may need so long
    // that its lease is renewed.
    let due = 100.0 + 20.0 * start.elapsed().as_secs_f64();
    assert!((renewals as f64) < due, "{renewals} renewals for 8000 turns in {:?}", start.elapsed());
}

#[test]
fn a_seat_that_is_left_while_its_turn_is_taken_back_stays_out_of_the_line() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = QueueStore::default();
        let locks = store.manager();
        let mut set = tokio::task::JoinSet::new();
        for number in 0..3_000 {
            let locks = locks.clone();
            set.spawn(async move {
                let key = format!("k{number}");
                let holder = locks.lock(key.as_str()).acquire().await.unwrap();
                let mut stuck = Box::pin(wait(&locks, &key).acquire());
                assert!(tokio::time::timeout(millis(1), &mut stuck).await.is_err());
                let next = tokio::spawn(brief(wait(&locks, &key)));
                tokio::time::sleep(millis(1)).await;
                holder.release().await.unwrap();
                // The next waiter checks the head of the queue from time to time, first after 250 ms.
                tokio::time::sleep(Duration::from_micros(250_000 + fastrand::u64(0..100_000))).await;
                drop(stuck);
                tokio::time::timeout(secs(30), next).await.is_ok()
            });
        }
        let mut hung = 0;
        while let Some(done) = set.join_next().await {
            hung += usize::from(!done.unwrap());
        }
        assert_eq!(hung, 0, "they hang");
    });
}

struct Dropper(Mutex<Option<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>>>);
impl std::task::Wake for Dropper {
    fn wake(self: Arc<Self>) {
        let future = self.0.lock().unwrap().take();
        drop(future);
    }
}

#[test]
fn nobody_is_woken_under_the_lock_of_a_line() {
    let (done, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = QueueStore::default();
            let (here, there) = (store.manager(), store.manager());
            let _holder = there.lock("k").acquire().await.unwrap();
            let one = |locks: &LockManager| {
                let request = wait(locks, "k");
                Box::pin(async move { drop(request.acquire().await) })
            };
            let (mut first, mut second, mut third) = (one(&here), one(&here), one(&here));
            for future in [&mut first, &mut second, &mut third] {
                assert!(tokio::time::timeout(millis(5), future).await.is_err());
            }
            let waker = std::task::Waker::from(Arc::new(Dropper(Mutex::new(Some(third)))));
            let mut context = std::task::Context::from_waker(&waker);
            assert!(second.as_mut().poll(&mut context).is_pending());
            drop(first);
        });
        done.send(()).unwrap();
    });
    told.recv_timeout(secs(60)).expect("it waits for a lock that it has");
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_dropped_half_way_leaves_a_lease_that_is_given_back() {
    let store = QueueStore::default();
    let (locks, control) = flaky(&store);
    let guard = locks.lock("k").ttl(secs(1)).acquire().await.unwrap();
    let waiting = tokio::spawn(brief(wait(&locks, "k").ttl(secs(1))));
    tokio::time::sleep(millis(5)).await;
    control.fail_next(Operation::Renew, Fault::HangAnswer, 1);
    assert!(tokio::time::timeout(millis(1), guard.extend(secs(3_600))).await.is_err());
    control.fail_always(Operation::Release, Fault::LoseRequest);
    guard.release().await.unwrap_err();
    tokio::time::sleep(secs(30)).await;
    control.heal();
    waiting.await.unwrap();
    tokio::time::sleep(secs(2)).await;
    assert!(store.is_empty(), "the store has it for an hour, and nobody gives it back any more");
}

/// A waiter takes over the queue entry of a waiter whose request is in flight. The new waiter's request is refused.
/// When the new waiter gives up, the queue entry is released.
#[tokio::test(start_paused = true)]
async fn a_place_that_was_taken_over_in_the_middle_of_a_question_is_given_back() {
    let store = Memory::new();
    let (flaky, control) = Flaky::new(store.clone());
    let (locks, other) =
        (LockManager::builder(flaky).build().unwrap(), LockManager::builder(store).build().unwrap());
    let holder = other.lock("k").acquire().await.unwrap();
    let first = tokio::spawn(wait(&locks, "k").acquire());
    tokio::time::sleep(millis(10)).await;
    let second = tokio::spawn(wait(&locks, "k").acquire());
    tokio::time::sleep(millis(10)).await;
    let waiting = async || other.inspect("k").await.unwrap().unwrap().waiting;
    assert_eq!(waiting().await, 1, "one place for both");
    control.fail_always(Operation::Enqueue, Fault::Hang);
    for _ in 0..100 {
        // The waiter sends a request once a minute.
        if control.hanging(Operation::Enqueue) == 0 {
            tokio::time::sleep(secs(1)).await;
        }
    }
    assert_eq!(control.hanging(Operation::Enqueue), 1);
    first.abort();
    tokio::time::sleep(millis(10)).await;
    control.heal();
    control.fail_always(Operation::Enqueue, Fault::Refuse);
    let asked = control.calls(Operation::Enqueue);
    tokio::time::sleep(secs(100)).await;
    assert!(control.calls(Operation::Enqueue) > asked, "once a minute");
    second.abort();
    tokio::time::sleep(millis(10)).await;
    assert_eq!(waiting().await, 0, "a place that nobody has");
    drop(holder);
}

/// If the store refuses a waiter's request, the waiter keeps its place in the queue.
#[tokio::test(start_paused = true)]
async fn a_question_that_is_refused_costs_no_place() {
    let store = Memory::new();
    let (flaky, control) = Flaky::new(store.clone());
    let (locks, other) =
        (LockManager::builder(flaky).build().unwrap(), LockManager::builder(store).build().unwrap());
    let holder = other.lock("k").acquire().await.unwrap();
    let fair = |locks: &LockManager| locks.fair("k").strategy(strategy::wait());
    let first = tokio::spawn(fair(&locks).acquire());
    tokio::time::sleep(millis(10)).await;
    let second = tokio::spawn(fair(&other).acquire());
    tokio::time::sleep(millis(10)).await;
    control.fail_next(Operation::Enqueue, Fault::Refuse, 1);
    let asked = control.calls(Operation::Enqueue);
    tokio::time::sleep(secs(100)).await;
    assert!(control.calls(Operation::Enqueue) > asked, "once a minute");
    holder.release().await.unwrap();
    let first = first.await.unwrap().unwrap();
    assert!(!second.is_finished(), "it is the second");
    first.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
}
