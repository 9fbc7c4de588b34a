//! Tests random load: every shape of request, futures that are dropped or not polled, guards that are released in every
//! way, and a store that fails. The test checks invariants. A failure prints the seed.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;
use lock_core::backend::Backend;
use lock_core::backend::memory::Memory;
use lock_core::testkit::{Fault, Flaky, FlakyControl, Operation};
use lock_core::{LockGuard, LockHandle, LockManager, LockRequest, strategy};
use tokio::task::JoinSet;

use crate::millis;
use crate::queue_store::QueueStore;

const SEEDS: u64 = 20;
const TASKS: u64 = 24;
const ROUNDS: usize = 25;
/// The least number of granted requests of a storm, which has 600 requests. Usually 257 to 376 are granted, with or
/// without faults. The other requests give up, are dropped, or are refused.
const FLOOR: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nobody,
    Readers,
    Permits(usize),
}

/// The holders of the keys, and the last token of each key.
#[derive(Default)]
struct Watch {
    holders: Mutex<HashMap<String, Vec<(Beside, LockHandle)>>>,
    tokens: Mutex<HashMap<String, u64>>,
    granted: AtomicUsize,
}

impl Watch {
    /// Records a new grant, and checks that no current holder excludes it. A holder that has lost its lock does not
    /// count.
    fn enter(&self, keys: &[String], beside: Beside, guard: &LockGuard) {
        self.granted.fetch_add(1, Ordering::SeqCst);
        let mut all = self.holders.lock().unwrap();
        for key in keys {
            let here = all.entry(key.clone()).or_default();
            here.retain(|(_, holder)| holder.is_held());
            let fits = match beside {
                Beside::Nobody => here.is_empty(),
                Beside::Readers => here.iter().all(|(other, _)| *other == Beside::Readers),
                Beside::Permits(of) => here.len() < of,
            };
            let alone = || here.iter().all(|(_, holder)| !holder.is_held());
            assert!(fits || !guard.is_held() || alone(), "{beside:?} on {key} beside {} others", here.len());
            here.push((beside, guard.handle()));
        }
    }

    /// Checks that the tokens of exclusive holders grow with every holder.
    async fn fence(&self, keys: &[String], guard: &LockGuard, before: Option<u64>) -> Option<u64> {
        let token = guard.fencing_token().await.ok()?.get();
        let mut tokens = self.tokens.lock().unwrap();
        for key in keys.iter().filter(|_| guard.is_held()) {
            let last = tokens.insert(key.clone(), token).unwrap_or(0);
            assert!(token > last || before == Some(token), "{key}: {token} after {last}");
        }
        Some(token)
    }
}

fn several(rng: &mut Rng) -> Vec<String> {
    let mut keys: Vec<_> = (0..4).filter(|_| rng.bool()).map(|n| format!("x{n}")).collect();
    if keys.is_empty() {
        keys.push("x0".to_owned());
    }
    keys
}

/// Returns a random request that the store supports, its keys, and which other holders its lock allows.
fn request(rng: &mut Rng, locks: &LockManager) -> (LockRequest, Vec<String>, Beside) {
    let key = format!("x{}", rng.u32(0..3));
    let all = if locks.store() == "memory" { 9 } else { 4 };
    let (request, keys, beside) = match rng.u32(0..all) {
        0..=2 => (locks.lock(key.as_str()), vec![key], Beside::Nobody),
        3 => (locks.fair(key.as_str()), vec![key], Beside::Nobody),
        4 => (locks.read(key.as_str()), vec![key], Beside::Readers),
        5 => (locks.write(key.as_str()), vec![key], Beside::Nobody),
        6 => (locks.semaphore("permits", 3), vec!["permits".to_owned()], Beside::Permits(3)),
        _ => {
            let keys = several(rng);
            (locks.all(keys.iter().map(String::as_str)), keys, Beside::Nobody)
        }
    };
    let request = match rng.u32(0..7) {
        0 => request.strategy(strategy::fail_fast()),
        1 => request.strategy(strategy::retry().within(millis(rng.u64(0..100)))),
        2 => request.strategy(strategy::skip()),
        3 => request.strategy(strategy::shed(strategy::retry().within(millis(200)), rng.usize(0..6))),
        4 => request.strategy(strategy::wait()).max_waiters(rng.usize(1..6)),
        _ => request.strategy(strategy::wait()),
    };
    let ttls = [50, 300, 1_000, 2_000, 5_000, 30_000];
    let request = request.ttl(millis(ttls[rng.usize(0..ttls.len())])).renew(rng.u32(0..6) > 0);
    let request = request.fencing(rng.u32(0..3) == 0);
    let limited = rng.u32(0..10) == 0;
    (if limited { request.max_hold(millis(rng.u64(1..20))) } else { request }, keys, beside)
}

/// Acquires the lock, or gives up half way. The future may be dropped after some time, or not polled for a while.
async fn acquire(rng: &mut Rng, request: LockRequest) -> Option<LockGuard> {
    let text = format!("{request:?}");
    let mut acquire = Box::pin(request.acquire());
    let patience = match rng.u32(0..6) {
        0 => Duration::from_micros(rng.u64(0..40_000)),
        1 => {
            let early = tokio::time::timeout(Duration::from_micros(rng.u64(0..5_000)), &mut acquire).await;
            if let Ok(answer) = early {
                return answer.ok();
            }
            tokio::time::sleep(millis(rng.u64(0..40))).await;
            Duration::from_secs(400)
        }
        _ => Duration::from_secs(400),
    };
    match tokio::time::timeout(patience, acquire).await {
        Ok(answer) => answer.ok(),
        Err(_) => {
            assert!(patience < Duration::from_secs(400), "it hangs: {text}");
            None
        }
    }
}

async fn work(rng: &mut Rng, guard: &LockGuard) {
    match rng.u32(0..4) {
        0 => {}
        1 => tokio::task::yield_now().await,
        2 => tokio::time::sleep(millis(rng.u64(0..12))).await,
        _ => drop(guard.run(tokio::time::sleep(millis(2))).await),
    }
    if rng.u32(0..20) == 0 {
        let _ = guard.extend(millis(rng.u64(50..3_000))).await;
    }
}

/// Ends the guard in a random way: by a drop, by a release, by a release that is dropped half way, or by a panic.
async fn give_back(rng: &mut Rng, guard: LockGuard) {
    match rng.u32(0..4) {
        0 => drop(guard),
        1 => {
            let mut release = Box::pin(guard.release());
            let _ = std::future::poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx).is_ready())).await;
        }
        2 => {
            let panics = AssertUnwindSafe(async move {
                let _guard = guard;
                std::panic::resume_unwind(Box::new("a body that panics"));
            });
            let _: Result<(), _> = tokio::spawn(panics.0).await;
        }
        _ => drop(guard.release().await),
    }
}

async fn worker(seed: u64, locks: LockManager, watch: Arc<Watch>) {
    let mut rng = Rng::with_seed(seed);
    for _ in 0..ROUNDS {
        let (request, keys, beside) = request(&mut rng, &locks);
        let Some(guard) = acquire(&mut rng, request).await else { continue };
        watch.enter(&keys, beside, &guard);
        let fenced = beside == Beside::Nobody && rng.bool();
        let token = if fenced { watch.fence(&keys, &guard, None).await } else { None };
        work(&mut rng, &guard).await;
        if fenced {
            watch.fence(&keys, &guard, token).await;
        }
        give_back(&mut rng, guard).await;
    }
}

async fn faults(seed: u64, control: FlakyControl) {
    use {Fault as F, Operation as O};
    let operations = [O::Acquire, O::Renew, O::Release, O::Fence, O::Enqueue, O::Heartbeat];
    let faults = [F::Refuse, F::LoseRequest, F::LoseAnswer, F::Hang, F::HangAnswer];
    let mut rng = Rng::with_seed(seed);
    loop {
        tokio::time::sleep(millis(rng.u64(1..30))).await;
        let (operation, fault) =
            (operations[rng.usize(0..operations.len())], faults[rng.usize(0..faults.len())]);
        control.fail_next(operation, fault, rng.u64(1..3));
        tokio::time::sleep(millis(rng.u64(1..60))).await;
        control.heal();
    }
}

/// Runs one storm, which is a random load on several managers of one store.
async fn storm<B: Backend + Clone>(seed: u64, store: B, failing: bool) {
    let watch = Arc::<Watch>::default();
    let (mut workers, mut trouble) = (JoinSet::new(), JoinSet::new());
    let mut controls = Vec::new();
    let managers: Vec<_> = (0..=seed % 3)
        .map(|number| {
            let (flaky, control) = Flaky::new(store.clone());
            if failing {
                trouble.spawn(faults(seed * 10 + number, control.clone()));
            }
            controls.push(control);
            // In every second storm, grants linger.
            LockManager::builder(flaky).linger(millis(seed % 2 * (seed + 3))).build().unwrap()
        })
        .collect();
    for task in 0..TASKS {
        let locks = managers[usize::try_from(task).unwrap() % managers.len()].clone();
        workers.spawn(worker(seed * 1_000 + task, locks, Arc::clone(&watch)));
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    trouble.shutdown().await;
    controls.iter().for_each(FlakyControl::heal);
    let granted = watch.granted.load(Ordering::SeqCst);
    assert!(granted >= FLOOR, "seed {seed}: {granted} grants of {} requests", TASKS * ROUNDS as u64);
    // After this time, everything that was not answered has expired.
    tokio::time::sleep(Duration::from_secs(60)).await;
    for locks in &managers {
        assert_eq!(locks.held(), 0, "seed {seed}");
        for key in ["x0", "x1", "x2", "x3"] {
            let free = locks.lock(key).linger(Duration::ZERO).try_acquire().await;
            let guard = free.unwrap().unwrap_or_else(|| panic!("seed {seed}: {key} is left behind"));
            guard.release().await.unwrap();
        }
    }
}

fn seeds(each: impl AsyncFn(u64)) {
    for seed in 1..=SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(each(seed));
    }
}

#[test]
fn on_memory() {
    seeds(async |seed| storm(seed, Memory::new(), false).await);
}

#[test]
fn on_memory_that_fails() {
    seeds(async |seed| storm(seed, Memory::new(), true).await);
}

#[test]
fn on_a_store_with_a_queue() {
    seeds(async |seed| {
        let store = QueueStore::default();
        store.deaf(seed % 5 == 2);
        store.release_takes(millis(u64::from(seed % 7 == 3)));
        storm(seed, store.clone(), false).await;
        assert!(store.is_empty(), "seed {seed}");
    });
}

#[test]
fn on_a_store_with_a_queue_that_fails() {
    seeds(async |seed| {
        let store = QueueStore::default();
        store.deaf(seed % 5 == 2);
        storm(seed, store.clone(), true).await;
        assert!(store.is_empty(), "seed {seed}");
    });
}
