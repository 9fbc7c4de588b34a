//! The tasks, and their observer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use lock_core::clock::Clock;
use lock_core::strategy::{self, Backoff};
use lock_core::testkit::history::{self, History, Hold};
use lock_core::{LockGuard, LockManager};
use lock_tests::{Bound, PATIENCE};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::keys::{Keys, Wanted};
use super::meter::{self, HEAD, Sample};
use super::store::Store;
use super::{Times, left};

const TASKS: usize = 32;

/// The longest wait of a request.
const WAIT: Duration = Duration::from_secs(20);

/// One request out of this number is dropped.
const DROPS: u8 = 8;

/// Holds that ended before this time are no longer checked, because no later hold overlaps them.
const CHECKED: Duration = Duration::from_secs(2);

/// The additional time for which a busy machine may keep data.
const BUSY: Duration = Duration::from_secs(15);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The state that the tasks share.
pub(crate) struct Soak {
    locks: LockManager,
    times: Times,
    keys: Keys,
    history: History,
    recent: Mutex<Vec<Hold>>,
    holds: AtomicUsize,
}

impl Soak {
    pub(crate) fn new(locks: LockManager, times: Times, keys: Keys) -> Arc<Self> {
        let history = History::new(Clock::Suspend);
        Arc::new(Self { locks, times, keys, history, recent: Mutex::default(), holds: AtomicUsize::new(0) })
    }

    /// Runs both halves, prints the table, and checks its values.
    pub(crate) async fn run(self: Arc<Self>, store: &Store) {
        let mut samples = Vec::new();
        println!("{HEAD}");
        for tokens in [false, true] {
            let (end, mut tasks) = (self.history.now() + self.times.half, JoinSet::new());
            for task in 0..TASKS {
                let soak = Arc::clone(&self);
                tasks.spawn(async move { soak.work(task, tokens, end).await });
            }
            let mut is_due = self.history.now();
            while self.history.now() < end {
                sleep(ms(500).min(end.saturating_sub(self.history.now()))).await;
                self.check();
                while let Some(done) = tasks.try_join_next() {
                    done.expect("a task found a contradiction");
                }
                if self.history.now() >= is_due {
                    is_due += self.times.half / 20;
                    samples.push(self.sample(store, tokens).await);
                }
            }
            while let Some(done) = timeout(PATIENCE * 6, tasks.join_next()).await.expect("they end") {
                done.expect("a task found a contradiction");
            }
        }
        self.check();
        left::check(&samples, store.keeps(self.times.ttl));
    }

    async fn work(&self, task: usize, tokens: bool, end: Duration) {
        let mut random = Rng::new();
        while self.history.now() < end {
            let wanted = self.keys.next(&self.locks);
            let (request, backoff) = (wanted.request.clone(), Backoff::exponential(ms(1), ms(16)));
            let request = request.ttl(self.times.ttl).fencing(tokens);
            let acquire = request.strategy(strategy::retry().within(WAIT).backoff(backoff)).acquire();
            let is_dropped = random.u8(..DROPS) == 0;
            let patience = if is_dropped { ms(20).mul_f64(random.f64()) } else { Duration::MAX };
            let asked = self.history.now();
            match timeout(patience, acquire).await {
                Ok(Ok(guard)) => self.hold(guard, &wanted, (task, asked, tokens), &mut random).await,
                Ok(Err(error)) => assert!(error.is_temporary(), "{error}"),
                Err(_) => {}
            }
        }
    }

    async fn hold(
        &self,
        guard: LockGuard,
        wanted: &Wanted,
        (worker, asked, tokens): (usize, Duration, bool),
        random: &mut Rng,
    ) {
        let acquired = self.history.now();
        let certain = acquired + guard.remaining();
        let fence = if tokens { guard.fencing_token().await.ok() } else { None };
        if let (Some(number), Some(fence), true) = (wanted.number, fence, guard.is_held()) {
            let before = self.keys.note(number, fence.get());
            assert!(before < fence.get(), "{:?}: {fence:?} after {before}", wanted.keys);
        }
        sleep(ms(random.u64(..3))).await;
        let (now, is_lost) = (self.history.now(), guard.check().is_err());
        let ended = if is_lost { now.min(certain) } else { now };
        {
            let mut recent = self.recent.lock().expect("no panic");
            for key in &wanted.keys {
                let (key, mode) = (key.clone(), wanted.mode);
                recent.push(Hold { worker, key, mode, asked, acquired, ended, fence });
            }
        }
        self.holds.fetch_add(1, Ordering::Relaxed);
        match random.u8(..4) {
            0 => drop(guard),
            1 => drop(timeout(ms(random.u64(..4)), guard.release()).await),
            _ => drop(guard.release().await),
        }
    }

    /// Checks the holds that ended recently, and drops the older ones.
    fn check(&self) {
        let recent = self.recent.lock().expect("no panic").clone();
        history::check(&recent).expect("one holder at a time, and tokens in order");
        let oldest = self.history.now().saturating_sub(CHECKED);
        self.recent.lock().expect("no panic").retain(|hold| hold.ended >= oldest);
    }

    async fn sample(&self, store: &Store, tokens: bool) -> Sample {
        let sample = Sample {
            at: self.history.now(),
            memory: meter::memory(),
            descriptors: meter::descriptors(),
            left: store.left().await,
            bytes: store.bytes(),
            keys: self.keys.begun(),
            holds: self.holds.load(Ordering::Relaxed),
        };
        println!("| {} | {tokens} | {sample} |", store.name());
        sample
    }

    /// Waits until the server has no data of the keys any more.
    pub(crate) async fn all_goes(&self, store: &Store) {
        let since = Bound::new(store.keeps(self.times.ttl) + BUSY);
        let mut left = store.left().await;
        while left > 0 {
            since.check(&format!("nothing is left of the keys: {left}"));
            sleep(ms(500)).await;
            left = store.left().await;
        }
        println!("{}: nothing is left after {:.0?}", store.name(), since.elapsed());
    }
}
