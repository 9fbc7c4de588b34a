//! Repeatedly acquires keys, and prints a history.
//!
//! Each of `--tasks` tasks picks one of `--kinds` at random and holds it for up to `--hold` microseconds. An exclusive
//! holder writes to the fenced resource at `--resource`. Then it releases the lock. Kinds are written `lock:k`,
//! `fair:k`, `read:k`, `write:k`, `semaphore3:k` and `all:a+b`. With `--unruly`, a task sometimes drops a waiting
//! acquire, or holds for longer than a `--ttl`. With `--careless`, the backend sometimes turns a *no* into a *yes*.
//!
//! The lines have times of `CLOCK_MONOTONIC` in ns, and `-` for a missing value:
//!
//! - `READY`
//! - `G <number> <kind>:<keys> <asked> <acquired> <deadline> <token>`: a grant
//! - `R <number> <ended> <accepted | refused | -> `: the end of the hold, and the answer of the resource. Absent if
//!   the worker was killed before
//! - `E <text>`: an unexplained error
//!
//! The worker ends when its input ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use lock_core::backend::redis::Redis;
use lock_core::{LockGuard, LockManager, LockRequest, strategy};
use lock_tests::{Fenced, monotonic};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::careless::Careless;
use crate::{Options, wait_for_line};

/// The state that the tasks share.
struct Contest {
    locks: LockManager,
    kinds: Vec<String>,
    resource: Fenced,
    ttl: Duration,
    hold: Duration,
    unruly: bool,
    numbers: AtomicU64,
}

pub(crate) async fn contend(options: &Options) {
    let locks = if options.has("--careless") {
        let redis = Redis::connect(options.text("--url")).await.expect("the server takes locks");
        LockManager::builder(Careless::new(redis)).build().expect("the operating system gives random bytes")
    } else {
        options.manager().await
    };
    let contest = Arc::new(Contest {
        locks,
        kinds: options.text("--kinds").split(',').map(str::to_owned).collect(),
        resource: Fenced::connect(options.text("--resource")).await,
        ttl: Duration::from_millis(options.number("--ttl")),
        hold: Duration::from_micros(options.number("--hold")),
        unruly: options.has("--unruly"),
        numbers: AtomicU64::new(0),
    });
    let (stop, stopped) = watch::channel(false);
    let mut random = Rng::with_seed(options.number("--seed"));
    let mut tasks = JoinSet::new();
    for _ in 0..options.number("--tasks") {
        let (contest, mut stopped, mut random) = (Arc::clone(&contest), stopped.clone(), random.fork());
        tasks.spawn(async move {
            while !*stopped.borrow() {
                tokio::select! {
                    () = contest.turn(&mut random) => {}
                    _ = stopped.wait_for(|stop| *stop) => {}
                }
            }
        });
    }
    println!("READY");
    tokio::task::spawn_blocking(wait_for_line).await.expect("the input can be read");
    stop.send_replace(true);
    tasks.join_all().await;
    let report = contest.locks.shutdown(Duration::from_secs(2)).await;
    if !report.revoked.is_empty() {
        println!("E the shutdown revoked {:?}", report.revoked);
    }
}

impl Contest {
    async fn turn(&self, random: &mut Rng) {
        let spec = &self.kinds[random.usize(..self.kinds.len())];
        let request = request(&self.locks, spec).ttl(self.ttl).fencing(random.bool());
        let acquire = request.strategy(strategy::wait()).acquire();
        let asked = monotonic();
        let guard = if self.unruly && random.u8(..20) == 0 {
            match timeout(Duration::from_micros(random.u64(..20_000)), acquire).await {
                Ok(guard) => guard,
                Err(_) => return,
            }
        } else {
            acquire.await
        };
        match guard {
            Ok(guard) => self.held(spec, guard, asked, random).await,
            Err(error) => {
                println!("E {error}");
                sleep(Duration::from_millis(10)).await;
            }
        }
    }

    async fn held(&self, spec: &str, guard: LockGuard, asked: Duration, random: &mut Rng) {
        let acquired = monotonic();
        // The rest of the lease is read after the time, so the deadline is no later than the true one.
        let deadline = acquired + guard.remaining();
        let token = guard.fencing_token().await.ok().map(lock_core::backend::FencingToken::get);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let [asked, acquired, first] = [asked, acquired, deadline].map(|at| at.as_nanos());
        let token_text = token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        println!("G {number} {spec} {asked} {acquired} {first} {token_text}");
        let alone = !spec.starts_with("read:") && !spec.starts_with("semaphore");
        let accepted = match token.filter(|_| alone) {
            Some(token) => Some(self.resource.write(guard.key(), token).await),
            None => None,
        };
        let long = self.unruly && random.u8(..200) == 0;
        match self.hold.mul_f64(random.f64()) {
            _ if long => sleep(self.ttl.mul_f64(1.5 * random.f64())).await,
            // A sleep of any length takes at least a millisecond.
            Duration::ZERO => tokio::task::yield_now().await,
            hold => sleep(hold).await,
        }
        let now = monotonic();
        // The deadline stays certain even if the lock was lost while it was held.
        let held = guard.is_held();
        let ended = if held { now } else { now.min(deadline) };
        let said = match accepted {
            Some(true) => "accepted",
            // A refusal is correct if the lock was lost meanwhile.
            Some(false) if held => "refused",
            _ => "-",
        };
        println!("R {number} {} {said}", ended.as_nanos());
        match random.u8(..6) {
            0 => drop(guard),
            1 if self.unruly => {
                drop(timeout(Duration::from_micros(random.u64(..500)), guard.release()).await)
            }
            _ => drop(guard.release().await),
        }
    }
}

fn request(locks: &LockManager, spec: &str) -> LockRequest {
    let (kind, keys) = spec.split_once(':').expect("a kind is followed by `:` and its keys");
    match kind {
        "lock" => locks.lock(keys),
        "linger" => locks.lock(keys).linger(Duration::from_millis(20)),
        "fair" => locks.fair(keys),
        "read" => locks.read(keys),
        "write" => locks.write(keys),
        "all" => locks.all(keys.split('+')),
        other => {
            let permits = other.strip_prefix("semaphore").and_then(|permits| permits.parse().ok());
            locks.semaphore(keys, permits.unwrap_or_else(|| panic!("worker knows no kind {other:?}")))
        }
    }
}
