//! Random work under locks, recorded for the check of its history. The tests of several stores include this module.
#![allow(dead_code, reason = "each store uses its part")]

mod lasting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use lock_core::backend::Mode;
use lock_core::clock::Clock;
use lock_core::strategy::{self, Backoff};
use lock_core::testkit::history::{History, Hold};
use lock_core::{FencingToken, LockGuard, LockManager, LockRequest};
use lock_tests::{Bound, Flow, Proxy};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub(crate) use self::lasting::Lasting;

const KEYS: [&str; 3] = ["k0", "k1", "k2"];
/// A key with permits.
const POOL: [&str; 1] = ["pool"];
const PERMITS: u32 = 2;

/// All keys of a load.
pub(crate) const ALL_KEYS: [&str; 4] = ["k0", "k1", "k2", "pool"];

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lock,
    Fair,
    /// Several keys at once.
    All,
    Read,
    Write,
    Permit,
}

/// The work that a test runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// The kinds from which each request picks one.
    pub(crate) kinds: &'static [Kind],
    pub(crate) ttl: Duration,
    /// The longest wait of a request.
    pub(crate) wait: Duration,
    /// One request out of this number is dropped within this time.
    pub(crate) drops: Option<(u8, Duration)>,
    /// Whether any loss of a lock is a failure.
    pub(crate) keeps: bool,
    /// The settings of the holds that are longer than their lease. All other holds take a few milliseconds.
    pub(crate) lasting: Option<Lasting>,
}

/// The condition under which the workers stop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    After(Duration),
    /// The workers stop after the first time if there are this many holds. The second time is a failure.
    With(usize, Duration, Duration),
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Load {
    /// Returns a load of exclusive locks whose requests are never dropped.
    pub(crate) const fn exclusive(ttl: Duration, wait: Duration) -> Self {
        Self { kinds: &[Kind::Lock], ttl, wait, drops: None, keeps: false, lasting: None }
    }

    /// Runs this many workers for each manager.
    pub(crate) async fn run(
        self,
        managers: &[LockManager],
        workers: usize,
        end: End,
        random: &mut Rng,
    ) -> History {
        let history = History::new(Clock::Suspend);
        self.run_into(&history, managers, workers, end, random).await;
        history
    }

    /// Runs this many workers for each manager. Worker `w` uses the manager `w` modulo the number of managers.
    pub(crate) async fn run_into(
        self,
        history: &History,
        managers: &[LockManager],
        workers: usize,
        end: End,
        random: &mut Rng,
    ) {
        let holds = Arc::new(AtomicUsize::new(0));
        let mut running = JoinSet::new();
        for (number, locks) in managers.iter().cycle().take(workers * managers.len()).enumerate() {
            let (locks, history, holds) = (locks.clone(), history.clone(), Arc::clone(&holds));
            let worker = Worker { number, load: self, locks, history, holds, random: random.fork() };
            running.spawn(worker.run(end));
        }
        running.join_all().await;
    }
}

struct Worker {
    number: usize,
    load: Load,
    locks: LockManager,
    history: History,
    holds: Arc<AtomicUsize>,
    random: Rng,
}

/// A lock that a worker holds.
struct Held {
    guard: LockGuard,
    kind: Kind,
    keys: &'static [&'static str],
    mode: Mode,
    asked: Duration,
    acquired: Duration,
    /// The last check showed that the lock is held until this time.
    certain: Duration,
    fence: Option<FencingToken>,
}

impl Worker {
    async fn run(mut self, end: End) {
        let (shortest, enough, longest) = match end {
            End::After(time) => (time, 0, Duration::MAX),
            End::With(enough, shortest, longest) => (shortest, enough, longest),
        };
        let over = Bound::new(longest);
        while over.elapsed() < shortest || self.holds.load(Ordering::Relaxed) < enough {
            over.check(&format!("{enough} holds, until now {:?}", self.holds));
            self.turn().await;
        }
    }

    /// Requests a lock, and holds it if the lock is granted in time.
    async fn turn(&mut self) {
        let Load { ttl, wait, drops, lasting, .. } = self.load;
        let kind = self.load.kinds[self.random.usize(..self.load.kinds.len())];
        let (request, keys, mode) = self.request(kind);
        let backoff = Backoff::exponential(ms(1), ms(8));
        let request = request.ttl(ttl).fencing(self.random.bool());
        let request = match lasting {
            Some(Lasting { one_of, min_hold, .. }) if self.random.u8(..one_of) == 0 => {
                request.min_hold(min_hold)
            }
            _ => request,
        };
        let acquire = request.strategy(strategy::retry().within(wait).backoff(backoff)).acquire();
        let patience = match drops {
            Some((of, within)) if self.random.u8(..of) == 0 => within.mul_f64(self.random.f64()),
            _ => Duration::MAX,
        };
        let asked = self.history.now();
        match timeout(patience, acquire).await {
            Ok(Ok(guard)) => self.hold(guard, (kind, keys, mode), asked).await,
            // The fault may prevail for a moment. The key was not held, so there is nothing to record.
            Ok(Err(error)) => assert!(error.is_temporary(), "{error}"),
            Err(_) => {}
        }
    }

    fn request(&mut self, kind: Kind) -> (LockRequest, &'static [&'static str], Mode) {
        let first = self.random.usize(..KEYS.len());
        let (one, rest) = (&KEYS[first..=first], &KEYS[first..]);
        let locks = &self.locks;
        match kind {
            Kind::Lock => (locks.lock(one[0]), one, Mode::Exclusive),
            Kind::Fair => (locks.fair(one[0]), one, Mode::Exclusive),
            Kind::All => (locks.all(rest.iter().copied()), rest, Mode::Exclusive),
            Kind::Read => (locks.read(one[0]), one, Mode::Shared),
            Kind::Write => (locks.write(one[0]), one, Mode::Exclusive),
            Kind::Permit => (locks.semaphore(POOL[0], PERMITS), &POOL, Mode::Permit { of: PERMITS }),
        }
    }

    async fn hold(
        &mut self,
        guard: LockGuard,
        (kind, keys, mode): (Kind, &'static [&'static str], Mode),
        asked: Duration,
    ) {
        let acquired = self.history.now();
        // This time stays valid even if the lock is lost while it is held.
        let certain = acquired + guard.remaining();
        let patience = if self.random.bool() { Duration::MAX } else { ms(self.random.u64(0..20)) };
        let fence = timeout(patience, guard.fencing_token()).await.ok().and_then(Result::ok);
        let mut held = Held { guard, kind, keys, mode, asked, acquired, certain, fence };
        match self.load.lasting {
            Some(lasting) if self.random.u8(..lasting.one_of) == 0 => match self.last(held, lasting).await {
                Some(still) => held = still,
                None => return,
            },
            _ => sleep(ms(self.random.u64(0..4))).await,
        }
        self.record(&held);
        let guard = held.guard;
        match self.random.u8(0..4) {
            0 => drop(guard),
            1 => drop(timeout(ms(self.random.u64(0..4)), guard.release()).await),
            _ => drop(guard.release().await),
        }
    }

    /// Records a hold that ends now.
    fn record(&mut self, held: &Held) {
        let (now, lost) = (self.history.now(), held.guard.check().err());
        assert!(!self.load.keeps || lost.is_none(), "no lease ends so soon: {lost:?}");
        let ended = if lost.is_none() { now } else { now.min(held.certain) };
        let Held { mode, asked, acquired, fence, .. } = *held;
        for key in held.keys {
            let (worker, key) = (self.number, (*key).to_owned());
            self.history.record(Hold { worker, key, mode, asked, acquired, ended, fence });
        }
        self.holds.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the number of recorded holds, and how many of these have a fencing token.
pub(crate) fn count(history: &History) -> (usize, usize) {
    let holds = history.holds();
    (holds.len(), holds.iter().filter(|hold| hold.fence.is_some()).count())
}

/// Injects faults into one connection to the server and heals them again, for ever. Each fault lasts at most `longest`.
pub(crate) async fn disturb(proxy: &Proxy, longest: Duration, mut random: Rng) {
    loop {
        sleep(longest.mul_f64(0.5 * random.f64()) + ms(5)).await;
        match random.u8(0..4) {
            0 => proxy.requests(Flow::Hold),
            1 => proxy.replies(Flow::Hold),
            2 => proxy.delay(ms(random.u64(1..8))),
            _ => proxy.cut(),
        }
        sleep(longest.mul_f64(random.f64()) + ms(1)).await;
        if random.u8(0..4) == 0 {
            proxy.cut();
        }
        proxy.heal();
    }
}
