//! One process that locks: it asks, holds for a while, writes to what is protected, gives back, again and again.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use lock_core::backend::Mode;
use lock_core::testkit::history::Hold;
use lock_core::{FencingToken, LockGuard, LockManager, strategy};
use tokio::time::{sleep, timeout};

use crate::journal::{Journal, now};
use crate::plan::{CALM, Plan};
use crate::resource::Resource;
use crate::store;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What a client is made of.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) plan: Rc<Plan>,
    pub(crate) store: store::Kind,
    pub(crate) journal: Journal,
    pub(crate) resource: Resource,
    /// How often it was started.
    pub(crate) lives: Rc<Cell<u64>>,
}

/// What one turn is to be.
struct Turn {
    key: &'static str,
    ttl: Duration,
    renewed: bool,
    fencing: bool,
    waits: Option<Duration>,
    gives_up: Option<Duration>,
    time: Duration,
    end: End,
}

/// How a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Released,
    Dropped,
    /// It goes on until it is lost, if it is not renewed.
    Lost,
}

impl Turn {
    fn new(rng: &mut Rng, max_ttl: Duration) -> Self {
        let ttl = max_ttl.mul_f64([0.3, 0.5, 1.0, 1.0][rng.usize(..4)]);
        let renewed = rng.u8(..5) < 2;
        let end = match rng.u8(..10) {
            0..=4 => End::Released,
            5..=6 => End::Dropped,
            _ => End::Lost,
        };
        let most = ttl.mul_f64(if renewed { 2.5 } else { 0.9 });
        Self {
            key: if rng.u8(..5) == 0 { "b" } else { "a" },
            ttl,
            renewed,
            fencing: rng.bool(),
            waits: rng.bool().then(|| ms(rng.u64(50..1_500))),
            gives_up: (rng.u8(..10) == 0).then(|| ms(rng.u64(1..40))),
            time: most.mul_f64(rng.f64() * rng.f64()),
            end: if renewed && end == End::Lost { End::Released } else { end },
        }
    }
}

impl Client {
    /// One life, from its start to its crash.
    pub(crate) async fn live(self) -> turmoil::Result {
        self.lives.set(self.lives.get() + 1);
        let seed = self.plan.seed.wrapping_mul(1_000_003) + self.number as u64 * 1_000 + self.lives.get();
        let mut rng = Rng::with_seed(seed);
        let Some(locks) = self.connect().await else { return self.rest().await };
        while now() < CALM {
            let turn = Turn::new(&mut rng, self.plan.max_ttl);
            let granted = self.turn(&locks, &mut rng, turn).await;
            sleep(ms(rng.u64(if granted { 1..100 } else { 20..400 }))).await;
        }
        self.journal.note(&self.name, format_args!("rests"));
        // The manager lives on: what it gives back in the background is part of what is tested.
        let result = self.rest().await;
        drop(locks);
        result
    }

    async fn rest(&self) -> turmoil::Result {
        std::future::pending().await
    }

    async fn connect(&self) -> Option<LockManager> {
        while now() < CALM {
            match store::connect(self.store, &self.plan).await {
                Ok(locks) => {
                    self.journal.note(&self.name, format_args!("is connected"));
                    return Some(locks);
                }
                Err(error) => assert!(error.is_temporary(), "{error}"),
            }
            sleep(ms(100)).await;
        }
        None
    }

    /// One turn; whether it was granted.
    async fn turn(&self, locks: &LockManager, rng: &mut Rng, turn: Turn) -> bool {
        let asked = now();
        let request = locks.lock(turn.key).ttl(turn.ttl).renew(turn.renewed).fencing(turn.fencing);
        let request = match turn.waits {
            Some(limit) => request.strategy(strategy::retry().within(limit)),
            None => request.strategy(strategy::fail_fast()),
        };
        let outcome = timeout(turn.gives_up.unwrap_or(Duration::MAX), request.acquire()).await;
        match outcome {
            Ok(Ok(guard)) => {
                self.hold(guard, asked, rng, &turn).await;
                return true;
            }
            Ok(Err(error)) => {
                self.journal
                    .note(&self.name, format_args!("is not granted {}: {:?}", turn.key, error.kind()));
                // Lost: while the fencing token was made.
                let expected = error.is_temporary() || error.is_contended() || error.is_lost();
                assert!(expected, "{error}");
            }
            Err(_) => self.journal.note(&self.name, format_args!("gives {} up", turn.key)),
        }
        false
    }

    async fn hold(&self, guard: LockGuard, asked: Duration, rng: &mut Rng, turn: &Turn) {
        let mut held = Held::begin(self, &guard, asked, turn);
        if turn.fencing || rng.u8(..3) == 0 {
            held.token(&guard).await;
        }
        let time = if turn.end == End::Lost { turn.ttl * 2 } else { turn.time };
        let time = time.min((CALM + ms(500)).saturating_sub(now()));
        let parts = rng.u32(1..4);
        let mut lost = false;
        for _ in 0..parts {
            lost = timeout(time / parts, guard.lost()).await.is_ok();
            if lost {
                break;
            }
            held.write(&guard);
        }
        let (token, hold) = (held.hold.fence, held.hold.clone());
        held.end(if lost { "has lost" } else { "ends" });
        if lost || turn.end != End::Released {
            self.journal.untold(&hold);
        }
        if let (Some(token), 0) = (token, rng.u8(..4)) {
            self.write_later(turn.key, token, ms(rng.u64(1..2_000)));
        }
        match turn.end {
            End::Dropped | End::Lost => drop(guard),
            End::Released => {
                let released = guard.release().await;
                if released.is_err() {
                    self.journal.untold(&hold);
                }
                let released = released
                    .map_or_else(|error| format!("{:?}", error.kind()), |released| format!("{released:?}"));
                self.journal.note(&self.name, format_args!("has released {}: {released}", turn.key));
            }
        }
    }

    /// A write of one who was paused, and does not know that its lock is over.
    fn write_later(&self, key: &'static str, token: FencingToken, after: Duration) {
        let (resource, name) = (self.resource.clone(), self.name.clone());
        tokio::task::spawn_local(async move {
            sleep(after).await;
            resource.write(&name, key, token, false);
        });
    }
}

/// A hold that is there; dropped, it ends in the journal, also in a crash.
struct Held<'a> {
    client: &'a Client,
    hold: Hold,
    /// Where nobody renews it: when it is over by itself.
    until: Option<Duration>,
    ended: bool,
}

impl<'a> Held<'a> {
    fn begin(client: &'a Client, guard: &LockGuard, asked: Duration, turn: &Turn) -> Self {
        let acquired = now();
        let until = (!turn.renewed).then(|| acquired + guard.remaining());
        let (name, key, left) = (&client.name, turn.key, guard.remaining());
        client.journal.note(name, format_args!("HOLDS {key} for {left:?}, renewed: {}", turn.renewed));
        client.journal.granted();
        let hold = Hold {
            worker: client.number,
            key: turn.key.to_owned(),
            mode: Mode::Exclusive,
            asked,
            acquired,
            ended: acquired,
            fence: None,
        };
        Self { client, hold, until, ended: false }
    }

    async fn token(&mut self, guard: &LockGuard) {
        if let Ok(token) = guard.fencing_token().await {
            self.client.journal.note(&self.client.name, format_args!("has a token for {}", self.hold.key));
            self.hold.fence = Some(token);
        }
    }

    fn write(&self, guard: &LockGuard) {
        if let Some(token) = self.hold.fence {
            self.client.resource.write(&self.client.name, &self.hold.key, token, guard.is_held());
        }
    }

    /// When a loss is told it counts as held until then: nobody else may have it before.
    fn end(mut self, how: &str) {
        self.finish(how, now());
    }

    fn finish(&mut self, how: &str, ended: Duration) {
        self.ended = true;
        self.hold.ended = ended;
        self.client.journal.note(&self.client.name, format_args!("{how} {}", self.hold.key));
        self.client.journal.record(self.hold.clone());
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let now = now();
            self.finish("dies with", self.until.map_or(now, |until| until.min(now)));
        }
    }
}
