//! Random work, dropped at random moments, on a network with random faults. A failure prints the seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use lock_core::backend::Mode;
use lock_core::clock::Clock;
use lock_core::strategy::{self, Backoff};
use lock_core::testkit::history::{History, Hold};
use lock_core::{LockGuard, LockManager};
use lock_tests::{Bound, Flow, PATIENCE, Proxy, RedisServer, wait_until_or};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::support::{LONG, connect, ms};
use crate::turns::{Beside, beside};

/// The number of holds after which the storm of random work ends, and its shortest and longest time.
const ENOUGH: usize = 100;
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(90);
/// The duration of the storm in which the server loses its data.
const TIME: Duration = Duration::from_secs(5);
const KEYS: [&str; 3] = ["k0", "k1", "k2"];

/// Acquires exclusive locks of every kind, and drops every future after a random time.
async fn work(worker: usize, locks: LockManager, history: History, held: Arc<AtomicUsize>, mut random: Rng) {
    let over = Bound::new(LONGEST);
    while over.elapsed() < SHORTEST || held.load(Ordering::Relaxed) < ENOUGH {
        over.check(&format!("{ENOUGH} holds, until now {held:?}"));
        let first = random.usize(..KEYS.len());
        let (request, keys) = match random.u8(..4) {
            0 => (locks.all(KEYS[first..].iter().copied()), &KEYS[first..]),
            1 => (locks.fair(KEYS[first]), &KEYS[first..=first]),
            _ => (locks.lock(KEYS[first]), &KEYS[first..=first]),
        };
        let request = request.ttl(LONG).fencing(random.bool());
        let backoff = Backoff::exponential(ms(1), ms(4));
        let acquire = request.strategy(strategy::retry().within(LONG).backoff(backoff)).acquire();
        let asked = history.now();
        match timeout(ms(random.u64(1..60)), acquire).await {
            Ok(Ok(guard)) => {
                hold(worker, guard, keys, asked, &history, &mut random).await;
                held.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Err(error)) => assert!(error.is_temporary(), "{error}"),
            Err(_) => {}
        }
    }
}

async fn hold(
    worker: usize,
    guard: LockGuard,
    keys: &[&str],
    asked: Duration,
    history: &History,
    random: &mut Rng,
) {
    let acquired = history.now();
    let fence = timeout(ms(random.u64(0..10)), guard.fencing_token()).await.ok().and_then(Result::ok);
    sleep(ms(random.u64(0..4))).await;
    let ended = history.now();
    guard.check().expect("no lease ends so soon");
    for key in keys {
        let (key, mode) = ((*key).to_owned(), Mode::Exclusive);
        history.record(Hold { worker, key, mode, asked, acquired, ended, fence });
    }
    match random.u8(0..4) {
        0 => drop(guard),
        1 => drop(timeout(ms(random.u64(0..4)), guard.release()).await),
        _ => drop(guard.release().await),
    }
}

/// Injects faults into one connection to the server and heals it again, for ever.
async fn disturb(proxy: &Proxy, mut random: Rng) {
    loop {
        sleep(ms(random.u64(5..80))).await;
        match random.u8(0..4) {
            0 => proxy.requests(Flow::Hold),
            1 => proxy.replies(Flow::Hold),
            2 => proxy.delay(ms(random.u64(1..8))),
            _ => proxy.cut(),
        }
        sleep(ms(random.u64(1..150))).await;
        proxy.heal();
    }
}

#[tokio::test]
async fn a_storm_leaves_nothing_behind_and_shows_one_holder_at_a_time() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let server = RedisServer::start();
    let ways = [Proxy::before(&server), Proxy::before(&server)];
    let managers = [connect(&ways[0].url()).await, connect(&ways[1].url()).await];
    let history = History::new(Clock::Suspend);

    let held = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for worker in 0..10 {
        let locks = managers[worker % 2].clone();
        workers.spawn(work(worker, locks, history.clone(), Arc::clone(&held), random.fork()));
    }
    tokio::select! {
        _ = workers.join_all() => {}
        () = disturb(&ways[0], random.fork()) => unreachable!("it never ends"),
        () = disturb(&ways[1], random.fork()) => unreachable!("it never ends"),
    }
    ways.iter().for_each(Proxy::heal);

    history.check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    // Every lease is a minute, so every key that is gone was released.
    let left = || server.keys().into_iter().filter(|key| !key.ends_with(":f"));
    let is_clean = async || left().next().is_none() && managers.iter().all(|locks| locks.held() == 0);
    let report = || {
        let left = left().map(|key| server.describe(&key));
        left.chain(managers.iter().map(|locks| format!("a manager holds {} locks", locks.held())))
            .collect::<Vec<_>>()
    };
    let what = format!("no lock is left, seed {seed}");
    wait_until_or(&what, PATIENCE, is_clean, || report().join("\n")).await;
}

/// The server forgets the lock again and again, in different ways, while the holder's network is bad.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "what came of it is wanted as well as the verdict")]
async fn a_storm_that_takes_the_data_leaves_the_next_holder_the_largest_token() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let server = RedisServer::start();
    let way = Proxy::before(&server);
    let (old, next) = (connect(&way.url()).await, connect(&server.url()).await);
    let mut faults = random.fork();
    let rounds = async {
        let (over, mut sum) = (Bound::new(TIME + LONG), Beside { turns: 0, larger: 0 });
        let mut rounds = 0;
        while over.elapsed() < TIME {
            let (turns, hold) = (random.usize(20..3_000), ms(random.u64(50..600)));
            let forget = || {
                let how: &[&str] =
                    [&["FLUSHALL"][..], &["DEL", "k"], &["UNLINK", "k", "{k}:f", "{k}:q"]][faults.usize(..3)];
                server.command(how);
            };
            if let Some(Beside { turns, larger }) = beside((&old, &next), "k", (turns, hold), forget).await {
                (sum.turns, sum.larger, rounds) = (sum.turns + turns, sum.larger + larger, rounds + 1);
            }
        }
        (rounds, sum)
    };
    let (rounds, sum) = tokio::select! {
        sum = rounds => sum,
        () = disturb(&way, Rng::with_seed(seed)) => unreachable!("it never ends"),
    };
    println!("seed {seed}: {rounds} times the next holder had the lock: {sum:?}");
    assert_eq!(sum.larger, 0, "seed {seed}: {sum:?}");
    assert!(rounds > 0, "seed {seed}: nobody else ever got the lock, this shows nothing");
}
