//! Many waiters of several kinds and processes. No key is free for long while a waiter waits for it. If a key is, a
//! notification was lost, and a heartbeat or a repeated request had to repair this. The tests of several stores include
//! this module. `no_stall.rs` of the library's own tests is the same on a paused clock, and exact.

#![allow(clippy::disallowed_methods, reason = "the test measures how long a key is free")]

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use fastrand::Rng;
use lock_core::{LockGuard, LockManager, LockRequest, strategy};
use lock_tests::PATIENCE;
use tokio::task::JoinSet;

const TASKS: u64 = 24;

/// The time that a busy machine may need. A waiter sends a request on its own after two thirds of a second at the
/// earliest.
const LONG: Duration = Duration::from_millis(500);

/// How many of a thousand grants a busy machine may delay by [`LONG`].
const LATE: usize = 8;

/// A key from the view of its holders.
struct Seen {
    holders: usize,
    /// Whether the only holder excludes all others.
    alone: bool,
    free_since: Instant,
}

/// The keys, and the time for which a key was free before each grant.
#[derive(Default)]
struct Keys {
    seen: Mutex<HashMap<&'static str, Seen>>,
    free: Mutex<Vec<Duration>>,
}

impl Keys {
    fn enter(&self, key: &'static str, alone: bool, asked: Instant) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.entry(key).or_insert_with(|| Seen { holders: 0, alone, free_since: Instant::now() });
        assert!(seen.holders == 0 || !alone && !seen.alone, "{key}: {} hold it", seen.holders);
        if seen.holders == 0 {
            let free = seen.free_since.max(asked).elapsed();
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(free);
        }
        (seen.holders, seen.alone) = (seen.holders + 1, alone);
    }

    fn leave(&self, key: &'static str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = seen.get_mut(key) {
            (seen.holders, seen.free_since) = (seen.holders - 1, Instant::now());
        }
    }
}

/// Returns a request of any kind for one of few keys, the key, and whether the holder excludes all others.
fn request(rng: &mut Rng, locks: &LockManager) -> (LockRequest, &'static str, bool) {
    let key = ["a", "b"][rng.usize(0..2)];
    let (request, key, alone) = match rng.u32(0..9) {
        0..=3 => (locks.lock(key), key, true),
        4 | 5 => (locks.fair(key), key, true),
        6 => (locks.write(key), key, true),
        7 => (locks.read(key), key, false),
        _ => (locks.semaphore("permits", 2), "permits", false),
    };
    (request.strategy(strategy::wait()).ttl(Duration::from_secs(30)), key, alone)
}

/// Waits for the guard, or gives up after a few polls.
async fn acquire(rng: &mut Rng, request: LockRequest) -> Option<LockGuard> {
    let mut acquire = Box::pin(request.acquire());
    if rng.u32(0..10) > 0 {
        let guard = tokio::time::timeout(PATIENCE, acquire).await.expect("it hangs");
        return Some(guard.expect("granted"));
    }
    for _ in 0..rng.u32(0..4) {
        let polled = poll_fn(|cx| Poll::Ready(acquire.as_mut().poll(cx))).await;
        if let Poll::Ready(guard) = polled {
            return Some(guard.expect("granted"));
        }
        tokio::task::yield_now().await;
    }
    None
}

async fn worker(seed: u64, locks: LockManager, keys: Arc<Keys>, rounds: usize) {
    let mut rng = Rng::with_seed(seed);
    for _ in 0..rounds {
        let ((request, key, alone), asked) = (request(&mut rng, &locks), Instant::now());
        let Some(guard) = acquire(&mut rng, request).await else { continue };
        keys.enter(key, alone, asked);
        match rng.u32(0..10) {
            0..=6 => {}
            7 | 8 => tokio::task::yield_now().await,
            // This hold is longer than a process keeps a grant that others want.
            _ => tokio::time::sleep(Duration::from_millis(rng.u64(1..15))).await,
        }
        keys.leave(key);
        match rng.u32(0..4) {
            0 => drop(guard),
            // A slow store releases the lock in the background, and the key is free late.
            _ => {
                if let Err(error) = guard.release().await {
                    assert!(error.is_temporary(), "{error}");
                }
            }
        }
    }
}

/// Makes the tasks of these managers compete for the same keys. Each manager is one process. A busy machine may be late
/// many times, but a missing notification is always late.
pub(crate) async fn no_key_is_free_while_somebody_waits(managers: &[LockManager], rounds: usize) {
    let mut goes = Vec::new();
    for _ in 0..5 {
        match go(managers, rounds).await {
            Ok(()) => return,
            Err(late) => goes.push(late),
        }
    }
    panic!("{goes:#?}");
}

/// Returns the number of late grants as an error, if there are too many.
async fn go(managers: &[LockManager], rounds: usize) -> Result<(), String> {
    let (keys, mut workers) = (Arc::<Keys>::default(), JoinSet::new());
    for (task, locks) in (0..TASKS).zip(managers.iter().cycle()) {
        workers.spawn(worker(task, locks.clone(), Arc::clone(&keys), rounds));
    }
    while let Some(done) = workers.join_next().await {
        done.expect("no panic");
    }
    let mut free = keys.free.lock().unwrap_or_else(PoisonError::into_inner).clone();
    free.sort_unstable();
    let late = free.iter().filter(|free| **free >= LONG).count();
    let (worst, median) = (free.last(), free.get(free.len() / 2));
    match late * 1_000 <= LATE * free.len() {
        true => Ok(()),
        false => Err(format!("{late} of {}; {worst:?}, median {median:?}", free.len())),
    }
}
