//! A node with realistic faults: it goes down, hangs, answers late, loses answers, forgets its data, and has its own
//! clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use lock_core::backend::memory::Memory;
use lock_core::backend::{Ask, Attempt, Backend, Capability, Claim, FencingToken, Released, Renew, Renewal};
use lock_core::clock::{Clock, Moment};
use lock_core::key::Key;
use lock_core::{LockError, LockErrorKind, Result};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    /// The node refuses every connection.
    Down,
    /// The node accepts requests but executes them only when it is well again.
    Stuck,
    /// The node executes requests, but its answers are lost.
    Mute,
}

/// The random faults of single calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// The longest delay of a request and of an answer.
    pub(crate) delay: Duration,
    /// How many of a hundred requests, and how many of a hundred answers, are lost.
    pub(crate) lost: u32,
}

/// A memory store behind a bad network. All clones are the same node.
#[derive(Clone, Debug)]
pub(crate) struct Node(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// The time of the test's clock at which the clock of the node shows zero, if its `skew` is zero.
    born: Moment,
    health: watch::Sender<Health>,
    /// The queue of requests that wait until the node is well.
    line: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    memory: Memory,
    tokens: HashMap<String, Last>,
    /// The time by which the node's clock is ahead.
    skew: Duration,
    weather: Weather,
    rng: Rng,
    calls: Calls,
    slow: HashMap<Kind, Duration>,
    /// The kind of the request after which this process is paused, and the length of the pause.
    pause: Option<(Kind, Duration)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Try,
    Renew,
    Release,
    Fence,
    Downgrade,
}

/// The number of requests of each kind, including failed requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) tries: usize,
    pub(crate) renewals: usize,
    pub(crate) releases: usize,
    pub(crate) fences: usize,
}

impl Calls {
    fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Try => self.tries += 1,
            Kind::Renew | Kind::Downgrade => self.renewals += 1,
            Kind::Release => self.releases += 1,
            Kind::Fence => self.fences += 1,
        }
    }
}

/// The last fencing token of a key and the owner of that token.
#[derive(Debug, Default)]
struct Last {
    number: u64,
    of: Option<(lock_core::owner::Owner, u64)>,
}

impl Node {
    pub(crate) fn new(seed: u64) -> Self {
        let state = State {
            memory: Memory::new(),
            tokens: HashMap::new(),
            skew: Duration::ZERO,
            weather: Weather::default(),
            rng: Rng::with_seed(seed),
            calls: Calls::default(),
            slow: HashMap::new(),
            pause: None,
        };
        let (born, line) = (Clock::Tokio.now(), tokio::sync::Mutex::default());
        Self(Arc::new(Inner {
            state: Mutex::new(state),
            born,
            health: watch::Sender::new(Health::Well),
            line,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no panic")
    }

    pub(crate) fn is(&self, health: Health) {
        self.0.health.send_replace(health);
    }

    pub(crate) fn weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    pub(crate) fn skew(&self, ahead: Duration) {
        self.state().skew = ahead;
    }

    /// Delays requests of one kind by `time` from now on.
    pub(crate) fn slow(&self, kind: Kind, time: Duration) {
        self.state().slow.insert(kind, time);
    }

    /// Pauses this process for `time` after the next request of this kind was served.
    pub(crate) fn pauses_us(&self, kind: Kind, time: Duration) {
        self.state().pause = Some((kind, time));
    }

    pub(crate) fn calls(&self) -> Calls {
        self.state().calls
    }

    /// Restarts the node without its data.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.memory = Memory::new();
        state.tokens.clear();
    }

    /// Returns the inner store, for calls that do not use the network.
    pub(crate) fn memory(&self) -> Memory {
        self.state().memory.clone()
    }

    pub(crate) async fn has(&self, claim: &Claim) -> bool {
        self.memory().fence(claim).await.is_ok()
    }

    pub(crate) async fn is_free(&self, key: &Key) -> bool {
        let other = lock_core::testkit::Claims::new().expect("random bytes").exclusive(key, super::TTL);
        let memory = self.memory();
        let free = super::gets(&memory, &other).await;
        memory.release(&other, None).await.expect("an answer");
        free
    }

    /// Waits until the node is well. Requests wait in order of arrival, as on one connection.
    async fn until_well(&self) {
        let _turn = self.0.line.lock().await;
        let mut health = self.0.health.subscribe();
        let _ = health.wait_for(|health| *health != Health::Stuck).await;
    }

    /// Returns the delay of a request and whether it is lost, and the same for its answer.
    fn draw(&self) -> (Duration, bool, Duration, bool) {
        let State { weather, rng, .. } = &mut *self.state();
        let micros = u64::try_from(weather.delay.as_micros()).expect("it fits");
        let mut delay = || Duration::from_micros(rng.u64(0..=micros));
        let (there, back) = (delay(), delay());
        (there, rng.u32(0..100) < weather.lost, back, rng.u32(0..100) < weather.lost)
    }

    /// Sends one call through the network. A request that was sent is served even if its client stops waiting.
    async fn over<T, F>(&self, kind: Kind, serve: impl FnOnce(Self) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.state().calls.count(kind);
        if *self.0.health.borrow() == Health::Down {
            return Err(LockError::new(LockErrorKind::Unavailable, "connection refused").nothing_taken());
        }
        let (there, lost, back, mute) = self.draw();
        let slow = self.state().slow.get(&kind).copied().unwrap_or_default();
        let node = self.clone();
        let served = tokio::spawn(async move {
            if !(there + slow).is_zero() {
                tokio::time::sleep(there + slow).await;
            }
            node.until_well().await;
            if lost { None } else { Some(serve(node).await) }
        });
        let Some(answer) = served.await.expect("no panic") else {
            return Err(LockError::new(LockErrorKind::Unavailable, "the request was lost"));
        };
        self.stand_still(kind).await;
        if !back.is_zero() {
            tokio::time::sleep(back).await;
        }
        let health = *self.0.health.borrow();
        match health {
            Health::Mute => std::future::pending().await,
            _ if mute => Err(LockError::new(LockErrorKind::Unavailable, "the answer was lost")),
            _ => Ok(answer),
        }
    }

    /// Pauses this process if a pause after this kind of request is planned. Time passes during the pause, but no task
    /// runs.
    async fn stand_still(&self, kind: Kind) {
        let pause = match &mut self.state().pause {
            Some((of, pause)) if *of == kind => std::mem::take(pause),
            _ => return,
        };
        let mut advance = std::pin::pin!(tokio::time::advance(pause));
        // The clock advances at the first poll. Other tasks run only after that.
        std::future::poll_fn(|cx| {
            let _ = advance.as_mut().poll(cx);
            std::task::Poll::Ready(())
        })
        .await;
    }

    /// Returns the token of a grant. A new token is larger than the last token of each key, and at least the time of
    /// the node's clock. A repeated call returns the same token.
    fn token(&self, claim: &Claim) -> FencingToken {
        self.raise(claim);
        let mut state = self.state();
        let time = Clock::Tokio.now().plus(state.skew).since(self.0.born);
        let time = u64::try_from(time.as_micros()).expect("it fits");
        let of = Some((claim.owner, claim.handoffs));
        let last = |key: &Key| state.tokens.get(key.as_str());
        let known = claim.keys().map(|key| last(key).filter(|last| last.of == of).map(|last| last.number));
        let known: Option<Vec<u64>> = known.collect();
        let same = known.filter(|all| all.iter().all(|number| *number == all[0])).map(|all| all[0]);
        let largest = claim.keys().filter_map(|key| last(key).map(|last| last.number)).max().unwrap_or(0);
        let number = same.unwrap_or((largest + 1).max(time));
        for key in claim.keys() {
            state.tokens.insert(key.as_str().to_owned(), Last { number, of });
        }
        FencingToken::new(number)
    }

    /// Records a token that the holder already got from another node.
    fn raise(&self, claim: &Claim) {
        let Some(own) = claim.own_fence() else { return };
        let mut state = self.state();
        for key in claim.keys() {
            let last = state.tokens.entry(key.as_str().to_owned()).or_default();
            if own.get() > last.number {
                *last = Last { number: own.get(), of: None };
            }
        }
    }
}

impl Backend for Node {
    fn capability(&self) -> Capability {
        self.memory().capability()
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        let claim = claim.clone();
        let attempt = self.over(Kind::Try, async move |node: Self| {
            let mut attempt = node.memory().acquire(&claim, Ask::Try).await?;
            if let Attempt::Granted(grant) = &mut attempt {
                // If the claim requests no token, the node creates a token only when `fence` is called.
                grant.fence = claim.fencing.then(|| node.token(&claim));
            }
            Ok(attempt)
        });
        attempt.await?
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let owned: Vec<(Claim, Duration)> =
            batch.iter().map(|renew| (renew.claim.clone(), renew.ttl)).collect();
        let answers = self.over(Kind::Renew, async move |node: Self| {
            let batch: Vec<_> = owned.iter().map(|(claim, ttl)| Renew { claim, ttl: *ttl }).collect();
            let answers = node.memory().renew(&batch).await;
            for (renew, answer) in batch.iter().zip(&answers) {
                if let Renewal::Renewed { .. } = answer {
                    node.raise(renew.claim);
                }
            }
            answers
        });
        let unknown = |_: &Renew<'_>| {
            Renewal::Unknown(LockError::new(LockErrorKind::Unavailable, "the renewal was not answered"))
        };
        answers.await.unwrap_or_else(|_| batch.iter().map(unknown).collect())
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        let claim = claim.clone();
        let released = self.over(Kind::Release, async move |node: Self| {
            let released = node.memory().release(&claim, keep_for).await?;
            if released == Released::Released {
                node.raise(&claim);
            }
            Ok(released)
        });
        released.await?
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        let claim = claim.clone();
        let token = self.over(Kind::Fence, async move |node: Self| {
            node.memory().fence(&claim).await?;
            Ok(node.token(&claim))
        });
        token.await?
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        let claim = claim.clone();
        let answer =
            self.over(Kind::Downgrade, async move |node: Self| node.memory().downgrade(&claim).await);
        answer.await.unwrap_or_else(Renewal::Unknown)
    }
}
