//! Tests many waiters of every kind on a paused clock. There, time passes only while all tasks wait. If a key with a
//! waiter stays free for a while, a notification was lost, and only a timer has repaired the loss.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;
use lock_core::backend::memory::Memory;
use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Heartbeat, Listener, Released, Renew, Renewal,
};
use lock_core::{LockErrorKind, LockGuard, LockManager, LockRequest, Result, strategy};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::millis;
use crate::queue_store::QueueStore;

const SEEDS: u64 = 40;
const TASKS: u64 = 16;
const ROUNDS: usize = 60;

/// The state of a key as its holders see it.
struct Seen {
    holders: usize,
    /// Whether the only holder excludes all others.
    alone: bool,
    free_since: Instant,
}

impl Seen {
    fn enter(&mut self, alone: bool, asked: Instant) {
        assert!(self.holders == 0 || !alone && !self.alone, "{} hold it", self.holders);
        if self.holders == 0 {
            let missed = self.free_since.max(asked).elapsed();
            assert!(missed.is_zero(), "it was free for {missed:?}");
        }
        (self.holders, self.alone) = (self.holders + 1, alone);
    }

    fn leave(&mut self) {
        self.holders -= 1;
        self.free_since = Instant::now();
    }
}

#[derive(Clone, Default)]
struct Keys(Arc<Mutex<HashMap<&'static str, Seen>>>);

impl Keys {
    fn with(&self, key: &'static str, change: impl FnOnce(&mut Seen)) {
        let free = || Seen { holders: 0, alone: false, free_since: Instant::now() };
        change(self.0.lock().unwrap().entry(key).or_insert_with(free));
    }
}

/// Returns a request of a random kind, its key, and whether its holder excludes all others.
fn request(rng: &mut Rng, locks: &LockManager) -> (LockRequest, &'static str, bool) {
    let key = ["a", "b"][rng.usize(0..2)];
    let kinds = if locks.store() == "memory" { 9 } else { 6 };
    let (request, key, alone) = match rng.u32(0..kinds) {
        0..=3 => (locks.lock(key), key, true),
        4 | 5 => (locks.fair(key), key, true),
        6 => (locks.write(key), key, true),
        7 => (locks.read(key), key, false),
        _ => (locks.semaphore("permits", 2), "permits", false),
    };
    let request = match rng.u32(0..4) {
        // The decision of this strategy depends on the number of waiters.
        0 => request.strategy(strategy::shed(strategy::wait(), rng.usize(0..6))),
        _ => request.strategy(strategy::wait()),
    };
    (request.ttl(Duration::from_secs(30)), key, alone)
}

fn granted(answer: Result<LockGuard>) -> Option<LockGuard> {
    if let Err(error) = &answer {
        assert_eq!(error.kind(), LockErrorKind::Overloaded, "{error}");
    }
    answer.ok()
}

/// Waits for the guard, or gives up after a few polls.
async fn acquire(rng: &mut Rng, request: LockRequest) -> Option<LockGuard> {
    let mut acquire = Box::pin(request.acquire());
    if rng.u32(0..5) > 0 {
        return granted(acquire.await);
    }
    for _ in 0..rng.u32(0..4) {
        let polled = poll_fn(|cx| Poll::Ready(acquire.as_mut().poll(cx))).await;
        if let Poll::Ready(guard) = polled {
            return granted(guard);
        }
        tokio::task::yield_now().await;
    }
    None
}

async fn worker(seed: u64, locks: LockManager, keys: Keys) {
    let mut rng = Rng::with_seed(seed);
    for _ in 0..ROUNDS {
        let ((request, key, alone), asked) = (request(&mut rng, &locks), Instant::now());
        let Some(guard) = acquire(&mut rng, request).await else { continue };
        keys.with(key, |seen| seen.enter(alone, asked));
        match rng.u32(0..8) {
            0..=3 => {}
            4..=6 => tokio::task::yield_now().await,
            // This may be longer than a process keeps a grant that others want.
            _ => tokio::time::sleep(millis(rng.u64(1..20))).await,
        }
        keys.with(key, Seen::leave);
        match rng.u32(0..3) {
            0 => drop(guard),
            _ => drop(guard.release().await.unwrap()),
        }
    }
}

/// A store that lets other tasks run before and after each call. It never answers at once.
#[derive(Clone, Debug, Default)]
struct Late<B>(B);

/// Lets other tasks run up to two times.
async fn others_run() {
    for _ in 0..fastrand::u32(0..3) {
        tokio::task::yield_now().await;
    }
}

async fn late<T>(call: impl Future<Output = T>) -> T {
    others_run().await;
    let answer = call.await;
    others_run().await;
    answer
}

impl<B: Backend> Backend for Late<B> {
    fn capability(&self) -> Capability {
        self.0.capability()
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        late(self.0.acquire(claim, ask)).await
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        late(self.0.heartbeat(claim)).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        late(self.0.renew(batch)).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        late(self.0.release(claim, keep_for)).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        late(self.0.fence(claim)).await
    }

    async fn changed(&self, claim: &Claim) {
        self.0.changed(claim).await;
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        background: Option<&tokio::runtime::Handle>,
    ) {
        self.0.attach(process, listener, background);
    }
}

fn storms<B: Backend + Clone>(store: impl Fn() -> B) {
    for seed in 1..=SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        // The random numbers of the library get the same seed, so that a failure can be repeated.
        fastrand::seed(seed);
        runtime.unwrap().block_on(async {
            let (store, keys, mut workers) = (store(), Keys::default(), JoinSet::new());
            // In every second storm, grants linger.
            let linger = millis(seed % 2 * 7);
            let manager = |_| LockManager::builder(store.clone()).linger(linger).build().unwrap();
            let managers: Vec<_> = (0..=seed / 2 % 3).map(manager).collect();
            for task in 0..TASKS {
                let locks = managers[usize::try_from(task).unwrap() % managers.len()].clone();
                workers.spawn(worker(seed * 1_000 + task, locks, keys.clone()));
            }
            while let Some(done) = workers.join_next().await {
                done.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        });
    }
}

#[test]
fn on_memory_no_key_is_free_while_somebody_waits() {
    storms(Memory::new);
}

#[test]
fn over_a_queue_no_key_is_free_while_somebody_waits() {
    storms(QueueStore::default);
}

#[test]
fn on_memory_that_answers_late_no_key_is_free_while_somebody_waits() {
    storms(Late::<Memory>::default);
}

#[test]
fn over_a_queue_that_answers_late_no_key_is_free_while_somebody_waits() {
    storms(Late::<QueueStore>::default);
}
