//! Tests that the right waiters are woken, and that no waiter is forgotten.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::{Claims, TTL};
use crate::backend::memory::Memory;
use crate::backend::{Ask, Attempt, Backend, Claim, Mode, Renew, Renewal};
use crate::clock::Clock;

/// A pending `changed` future. A test polls the future by hand, so that the test sees each wake-up and can drop the
/// future before the next poll.
struct Waiter<'a> {
    future: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<'a> Waiter<'a> {
    fn of(memory: &'a Memory, claim: &'a Claim) -> Self {
        Self { future: Box::pin(memory.changed(claim)), wakes: Arc::default() }
    }

    fn is_ready(&mut self) -> bool {
        let waker = Waker::from(Arc::clone(&self.wakes));
        matches!(self.future.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(()))
    }

    /// Polls the future until there is no new wake-up, as an executor would. Returns whether the future completed.
    fn run(&mut self) -> bool {
        for _ in 0..100 {
            let seen = self.wakes.0.load(Ordering::Relaxed);
            if self.is_ready() {
                return true;
            }
            if self.wakes.0.load(Ordering::Relaxed) == seen {
                return false;
            }
        }
        panic!("it wakes itself without end");
    }
}

async fn granted(memory: &Memory, claim: &Claim) -> bool {
    matches!(memory.acquire(claim, Ask::Enqueue { room: None }).await, Ok(Attempt::Granted(_)))
}

/// Returns the holder of a key, and `N` claims that were refused.
async fn held_with<const N: usize>(memory: &Memory, make: impl Fn() -> Claim) -> (Claim, [Claim; N]) {
    let holder = make();
    assert!(granted(memory, &holder).await);
    let claims = std::array::from_fn(|_| make());
    for claim in &claims {
        assert!(!granted(memory, claim).await);
    }
    (holder, claims)
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_not_queued_leaves_no_place_behind() {
    let (memory, claims) = (Memory::new(), Claims::new());
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [holder, watches, next] =
            [Mode::Exclusive, mode, Mode::Exclusive].map(|mode| claims.fifo("k", mode));
        assert!(granted(&memory, &holder).await);
        assert!(matches!(memory.acquire(&watches, Ask::Try).await, Ok(Attempt::Held(_))));
        let mut waiter = Waiter::of(&memory, &watches);
        assert!(!waiter.run());
        drop(waiter);
        memory.give_back(&holder, None, Clock::Tokio.now());
        assert!(granted(&memory, &next).await, "{mode:?}: the key is kept for nobody");
        memory.give_back(&next, None, Clock::Tokio.now());
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_one_waiter_the_oldest() {
    for fifo in [false, true] {
        let (memory, claims) = (Memory::new(), Claims::new());
        let make = || if fifo { claims.fifo("k", Mode::Exclusive) } else { claims.exclusive("k") };
        let (holder, [a, b, c]) = held_with(&memory, make).await;
        let mut waiters = [&a, &b, &c].map(|claim| Waiter::of(&memory, claim));
        assert_eq!(waiters.each_mut().map(Waiter::run), [false; 3]);
        memory.give_back(&holder, None, Clock::Tokio.now());
        assert_eq!(waiters.each_mut().map(Waiter::run), [true, false, false], "fifo {fifo}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_before_the_wait_is_not_missed() {
    for fifo in [false, true] {
        let (memory, claims) = (Memory::new(), Claims::new());
        let make = || if fifo { claims.fifo("k", Mode::Exclusive) } else { claims.exclusive("k") };
        let (holder, [a]) = held_with(&memory, make).await;
        memory.give_back(&holder, None, Clock::Tokio.now());
        assert!(Waiter::of(&memory, &a).run(), "fifo {fifo}");
        assert!(granted(&memory, &a).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_after_its_wake_passes_it_on() {
    for fifo in [false, true] {
        let (memory, claims) = (Memory::new(), Claims::new());
        let make = || if fifo { claims.fifo("k", Mode::Exclusive) } else { claims.exclusive("k") };
        let (holder, [a, b, c]) = held_with(&memory, make).await;
        let [mut wa, mut wb, mut wc] = [&a, &b, &c].map(|claim| Waiter::of(&memory, claim));
        assert!(!wa.run() && !wb.run() && !wc.run());
        memory.give_back(&holder, None, Clock::Tokio.now());
        assert!(wa.wakes.0.load(Ordering::Relaxed) > 0);
        assert!(!wb.run(), "it may look round, and it is not its turn");
        let before = wb.wakes.0.load(Ordering::Relaxed);
        drop(wa);
        if fifo {
            // The ticket stays after the wait, until the claim is released.
            memory.give_back(&a, None, Clock::Tokio.now());
        }
        assert!(wb.wakes.0.load(Ordering::Relaxed) > before, "fifo {fifo}");
        assert!(wb.run() && !wc.run(), "fifo {fifo}");
        // The waiter has seen its turn, but gives up before its next attempt.
        drop(wb);
        memory.give_back(&b, None, Clock::Tokio.now());
        if fifo {
            assert!(wc.run());
        }
        assert!(granted(&memory, &c).await, "fifo {fifo}");
        drop(wc);
        memory.give_back(&c, None, Clock::Tokio.now());
        assert_eq!(memory.in_use(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn readers_at_the_head_are_woken_together_and_stop_at_a_writer() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let fifo = |mode| claims.fifo("k", mode);
    let writer = fifo(Mode::Exclusive);
    assert!(granted(&memory, &writer).await);
    let line = [Mode::Shared, Mode::Shared, Mode::Exclusive, Mode::Shared].map(fifo);
    for claim in &line {
        assert!(!granted(&memory, claim).await);
    }
    let mut waiters = line.each_ref().map(|claim| Waiter::of(&memory, claim));
    assert_eq!(waiters.each_mut().map(Waiter::run), [false; 4]);
    memory.give_back(&writer, None, Clock::Tokio.now());
    assert_eq!(waiters.each_mut().map(Waiter::run), [true, true, false, false]);
    assert!(granted(&memory, &line[1]).await && granted(&memory, &line[0]).await);
    assert!(!granted(&memory, &line[3]).await);
    memory.give_back(&line[0], None, Clock::Tokio.now());
    memory.give_back(&line[1], None, Clock::Tokio.now());
    assert!(granted(&memory, &line[2]).await);
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_wakes_readers_up_to_a_writer() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let writer = claims.fifo("k", Mode::Exclusive);
    assert!(granted(&memory, &writer).await);
    let line = [Mode::Shared, Mode::Exclusive, Mode::Shared].map(|mode| claims.fifo("k", mode));
    for claim in &line {
        assert!(!granted(&memory, claim).await);
    }
    let mut waiters = line.each_ref().map(|claim| Waiter::of(&memory, claim));
    assert_eq!(waiters.each_mut().map(Waiter::run), [false; 3]);
    assert!(matches!(memory.downgrade(&writer).await, Renewal::Renewed { waiters: Some(3), .. }));
    assert_eq!(waiters.each_mut().map(Waiter::run), [true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn expiry_wakes_the_first_waiter_and_the_rest_follow() {
    for fifo in [false, true] {
        let memory = Memory::new();
        let claims = Claims::new();
        let make = || if fifo { claims.fifo("k", Mode::Exclusive) } else { claims.exclusive("k") };
        let (_holder, line) = held_with::<3>(&memory, make).await;
        let start = tokio_now();
        let tasks = line.map(|claim| {
            let memory = memory.clone();
            tokio::spawn(async move {
                loop {
                    memory.changed(&claim).await;
                    if granted(&memory, &claim).await {
                        // This grant is never released, so that the next waiter must wait for its expiry.
                        return tokio_now() - start;
                    }
                }
            })
        });
        let mut times = Vec::new();
        for task in tasks {
            times.push(task.await.expect("no panic"));
        }
        times.sort();
        for (number, time) in (1..).zip(times) {
            let due = TTL * number;
            assert!(
                time >= due && time < due + Duration::from_millis(10),
                "fifo {fifo}: {time:?} for {due:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_ticket_is_kept_by_a_pending_wait_and_dies_two_seconds_after_it() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let (holder, [a, b]) = held_with(&memory, || claims.fifo("k", Mode::Exclusive)).await;
    let mut waiter = Waiter::of(&memory, &a);
    assert!(!waiter.run());
    tokio::time::advance(Duration::from_secs(5)).await;
    memory.give_back(&holder, None, Clock::Tokio.now());
    assert!(!granted(&memory, &b).await, "the older ticket lives as long as it is waited for");
    drop(waiter);
    tokio::time::advance(Duration::from_millis(1_999)).await;
    assert!(!granted(&memory, &b).await);
    assert!(!granted(&memory, &claims.exclusive("k")).await, "nor does a newcomer overtake a ticket");
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(granted(&memory, &b).await);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_dead_ticket_is_woken_when_it_dies() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let (holder, [_dead, b]) = held_with(&memory, || claims.fifo("k", Mode::Exclusive)).await;
    memory.give_back(&holder, None, Clock::Tokio.now());
    let start = tokio_now();
    memory.changed(&b).await;
    assert!(granted(&memory, &b).await);
    assert!(tokio_now() - start <= Duration::from_millis(2_001));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_ends_earlier_moves_the_next_look_forward() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let (holder, [waiting]) = held_with(&memory, || claims.exclusive("k")).await;
    let start = tokio_now();
    let mut waiter = Waiter::of(&memory, &waiting);
    assert!(!waiter.run(), "it sleeps until the end of the lease");
    memory.give_back(&holder, Some(Duration::from_millis(50)), Clock::Tokio.now());
    waiter.future.await;
    assert!(granted(&memory, &waiting).await);
    assert!(tokio_now() - start <= Duration::from_millis(51));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_alarm_passed_to_another_does_not_spin() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let (holder, [older, younger]) = held_with(&memory, || claims.fifo("k", Mode::Exclusive)).await;
    let mut second = Waiter::of(&memory, &younger);
    assert!(!second.run(), "it is the only one who waits, and checks after expiry");
    let mut first = Waiter::of(&memory, &older);
    assert!(!first.run());
    tokio::time::advance(TTL / 2).await;
    let batch = [Renew { claim: &holder, ttl: TTL }];
    assert!(matches!(memory.renew(&batch).await[..], [Renewal::Renewed { .. }]));
    tokio::time::advance(TTL / 2 + Duration::from_millis(1)).await;
    assert!(!first.run() && !second.run());
    let before = second.wakes.0.load(Ordering::Relaxed);
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!first.run() && !second.run());
    }
    assert!(second.wakes.0.load(Ordering::Relaxed) <= before + 1);
    tokio::time::advance(TTL / 2).await;
    assert!(first.run() && !second.run());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_load_nobody_is_forgotten() {
    for fifo in [false, true] {
        let (memory, claims) = (Memory::new(), Arc::new(Claims::new()));
        let (inside, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let worker = || {
            let (memory, claims) = (memory.clone(), Arc::clone(&claims));
            let (inside, turns) = (Arc::clone(&inside), Arc::clone(&turns));
            async move {
                for _ in 0..200 {
                    let claim = if fifo { claims.fifo("k", Mode::Exclusive) } else { claims.exclusive("k") };
                    while !granted(&memory, &claim).await {
                        memory.changed(&claim).await;
                    }
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                    turns.fetch_add(1, Ordering::SeqCst);
                    memory.give_back(&claim, None, Clock::Tokio.now());
                }
            }
        };
        let workers: Vec<_> = (0..8).map(|_| tokio::spawn(worker())).collect();
        // After a lost wake-up, the test would wait 10 s for the expiry.
        let all = async {
            for worker in workers {
                worker.await.expect("no panic");
            }
        };
        tokio::time::timeout(Duration::from_secs(8), all).await.expect("a wake-up was lost");
        assert_eq!(turns.load(Ordering::SeqCst), 1_600);
        assert_eq!(memory.in_use(), 0);
    }
}

#[allow(clippy::disallowed_methods, reason = "the test measures tokio's paused clock")]
fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
