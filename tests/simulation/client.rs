//! A client process. It repeatedly acquires a lock, holds it for a while, writes to the protected resource and
//! releases.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use lock_core::{LockError, LockErrorKind, LockGuard, LockHandle, LockManager, Released, strategy};
use tokio::time::{sleep, timeout};

use crate::check::Oracle;
use crate::held::{Held, Late};
use crate::journal::{Journal, now};
use crate::plan::{Asks, CALM, Plan};
use crate::resource::{Resource, Use};
use crate::store;
use crate::turn::{Ask, End, How, Turn, Waits};

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One client of a world.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) plan: Rc<Plan>,
    pub(crate) store: store::Kind,
    pub(crate) lapse: Lapse,
    pub(crate) journal: Journal,
    pub(crate) resource: Resource,
    /// The number of starts of the client.
    pub(crate) lives: Rc<Cell<u64>>,
    /// The number of pauses of the client.
    pub(crate) stops: Rc<Cell<usize>>,
}

/// A planted bug in the behavior of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lapse {
    #[default]
    None,
    /// The body continues after the lock is lost.
    GoesOnWhenLost,
    /// A nested call does not detect the outer call.
    NestsOutside,
    /// A wait without a limit gives up.
    GivesUpWaiting,
}

impl Client {
    /// Runs one life, from its start to its crash.
    pub(crate) async fn live(self) -> turmoil::Result {
        self.lives.set(self.lives.get() + 1);
        let seed = self.plan.seed.wrapping_mul(1_000_003) + self.number as u64 * 1_000 + self.lives.get();
        let mut rng = Rng::with_seed(seed);
        let Some(locks) = self.connect().await else { return self.rest().await };
        self.is_refused_permits(&locks).await;
        while now() < CALM {
            let turn = Turn::new(&mut rng, &self.plan);
            let granted = self.turn(&locks, &mut rng, turn).await;
            sleep(ms(rng.u64(if granted { 1..100 } else { 20..400 }))).await;
        }
        self.journal.note(&self.name, format_args!("rests"));
        // The manager stays alive, because its background releases are part of the test.
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

    /// Checks that a majority refuses permits at once, because it cannot count them.
    async fn is_refused_permits(&self, locks: &LockManager) {
        if self.plan.asks == Asks::Shared {
            let asked = now();
            let refused = locks.semaphore("p", 2).acquire().await.err().map(|error| error.kind());
            assert_eq!((refused, now()), (Some(LockErrorKind::Unsupported), asked));
        }
    }

    /// Runs one round. Returns whether the lock was granted.
    async fn turn(&self, locks: &LockManager, rng: &mut Rng, turn: Turn) -> bool {
        let asked = now();
        let request = turn.request(locks, self.lapse);
        let limit = turn.gives_up.unwrap_or(Duration::MAX).min((CALM + ms(600)).saturating_sub(asked));
        let failed = if turn.how == How::Guard {
            match timeout(limit, request.acquire()).await {
                Ok(Ok(guard)) => {
                    self.hold(guard, asked, rng, &turn).await;
                    return true;
                }
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            }
        } else {
            let (granted, within) = (Cell::new(false), rng.fork());
            let body = |handle| {
                granted.set(true);
                self.body(locks, handle, asked, within, &turn)
            };
            let outcome = timeout(limit, request.run_with(body)).await;
            match outcome {
                _ if granted.get() => {
                    let how = match outcome {
                        Ok(Ok(())) => "is over",
                        Ok(Err(_)) => "was ended",
                        Err(_) => "was dropped",
                    };
                    self.journal.note(&self.name, format_args!("what it ran {how}"));
                    return true;
                }
                Ok(outcome) => outcome.err(),
                Err(_) => None,
            }
        };
        self.fails(&turn, failed);
        false
    }

    fn fails(&self, turn: &Turn, failed: Option<LockError>) {
        let (name, keys) = (&self.name, turn.ask.keys());
        let Some(error) = failed else {
            return self.journal.note(name, format_args!("gives {keys:?} up"));
        };
        self.journal.note(name, format_args!("is not granted {keys:?}: {:?}", error.kind()));
        // The lock was lost while the fencing token was created.
        if turn.waits == Waits::Forever && !error.is_lost() {
            let what = format!("{name} waits for ever, and is told {:?}", error.kind());
            self.journal.broken(Oracle::Answers, what);
        }
        assert!(error.is_temporary() || error.is_contended() || error.is_lost(), "{error}");
    }

    async fn hold(&self, guard: LockGuard, asked: Duration, rng: &mut Rng, turn: &Turn) {
        let mut held = Held::begin(self, turn, asked, guard.remaining());
        if turn.fencing || rng.u8(..3) == 0 {
            held.has_token(&guard.fencing_token().await);
        }
        let (time, parts) = (self.time_of(turn), rng.u32(1..4));
        let mut guard = guard;
        let mut lost = false;
        for part in 0..parts {
            lost = timeout(time / parts, guard.lost()).await.is_ok();
            if !lost && guard.is_held() {
                held.is_used();
            }
            if !lost || turn.careless {
                held.write(!lost && guard.is_held());
            }
            if lost {
                break;
            }
            if part == 0 && turn.ask == (Ask::Write { downgrades: true }) {
                held.downgrades();
                match guard.downgrade().await {
                    Ok(reader) => guard = reader,
                    Err(error) => {
                        // The guard is dropped without a release.
                        return self
                            .journal
                            .note(&self.name, format_args!("is no reader: {:?}", error.kind()));
                    }
                }
                held.is_downgraded(guard.remaining());
            }
        }
        if !lost && guard.is_held() {
            held.is_used();
        }
        if rng.u8(..4) == 0 {
            self.write_later(&held, ms(rng.u64(1..2_000)));
        }
        let of = held.turn.clone();
        held.end(if lost { "has lost" } else { "ends" });
        if lost || turn.end != End::Released {
            self.journal.untold(&of);
        }
        if turn.end != End::Released {
            return drop(guard);
        }
        if turn.in_background {
            self.journal.count("releases in the background");
            self.journal.untold(&of);
            return guard.release_within(Duration::ZERO).await;
        }
        let released = guard.release().await;
        if released.is_err() {
            self.journal.untold(&of);
        }
        let released =
            released.map_or_else(|error| format!("{:?}", error.kind()), |released| format!("{released:?}"));
        self.journal.note(&self.name, format_args!("has released {:?}: {released}", turn.ask.keys()));
    }

    /// Runs the body under a lock.
    async fn body(
        &self,
        locks: &LockManager,
        handle: LockHandle,
        asked: Duration,
        mut rng: Rng,
        turn: &Turn,
    ) {
        let held = Held::begin(self, turn, asked, handle.remaining());
        let parts = rng.u32(1..4);
        let fences = turn.fencing || rng.u8(..3) == 0;
        self.work(locks, &handle, turn, (&held, parts, fences)).await;
        self.journal.untold(&held.turn);
        held.end("ends");
    }

    /// Uses the lock each time it is polled.
    async fn work(
        &self,
        locks: &LockManager,
        handle: &LockHandle,
        turn: &Turn,
        (held, parts, fences): (&Held<'_>, u32, bool),
    ) {
        let mut work = pin!(async {
            if fences {
                held.has_token(&handle.fencing_token().await);
            }
            if turn.how == How::Nested {
                self.nested(locks, turn, held).await;
            }
            let time = self.time_of(turn);
            for _ in 0..parts {
                sleep(time / parts).await;
                held.write(handle.is_held());
            }
        });
        poll_fn(|cx| {
            held.is_used();
            work.as_mut().poll(cx)
        })
        .await;
    }

    /// Requests the same lock inside the body. It must be granted at once and with the same token, and its release must
    /// not end the outer hold. A reader cannot become a writer this way.
    async fn nested(&self, locks: &LockManager, turn: &Turn, held: &Held<'_>) {
        let began = now();
        let again = locks.lock(turn.ask.keys()[0]).ttl(turn.ttl).strategy(strategy::fail_fast());
        let answer = if self.lapse == Lapse::NestsOutside {
            tokio::task::spawn_local(again.acquire()).await.expect("no panic")
        } else {
            again.acquire().await
        };
        let problem = match answer {
            Err(error) if turn.ask == Ask::Read && error.kind() == LockErrorKind::Upgrade => None,
            Err(error) => Some(format!("is refused what it has: {:?}", error.kind())),
            Ok(_) if turn.ask == Ask::Read => Some("becomes a writer beside readers".to_owned()),
            Ok(guard) => {
                let token = if held.fence.get().is_some() { guard.fencing_token().await.ok() } else { None };
                let (same, released) = (token == held.fence.get(), guard.release().await.ok());
                let right = same && released == Some(Released::StillHeld);
                (!right).then(|| format!("has another lock inside its own: {same}, {released:?}"))
            }
        };
        let problem = problem.or_else(|| (now() != began).then(|| "waits for what it has".to_owned()));
        self.journal.count("nested calls");
        if let Some(problem) = problem {
            self.journal.broken(Oracle::Answers, format!("{} {problem}", self.name));
        }
    }

    fn time_of(&self, turn: &Turn) -> Duration {
        turn.time().min((CALM + ms(500)).saturating_sub(now()))
    }

    /// Writes after a pause, without a check whether the lock has ended.
    fn write_later(&self, held: &Held<'_>, after: Duration) {
        let Some(late) = held.late() else { return };
        let client = self.clone();
        tokio::task::spawn_local(async move {
            sleep(after).await;
            for key in late.keys {
                let Late { token, reads, since, .. } = late;
                client.resource.serve(Use { who: &client.name, key, token, reads, since, held: false });
            }
        });
    }
}
