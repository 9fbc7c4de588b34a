//! Many tasks of several processes want one fair lock. Some of them give up at any moment, or are not polled for a
//! while, and connections are cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use lock_core::{LockGuard, LockManager, strategy};
use lock_tests::{PATIENCE, Proxy, RedisServer, wait_until};
use tokio::task::JoinSet;

use crate::load::{End, Kind, Load, count, disturb};
use crate::support::{LONG, connect, manager, ms, within};

const PROCESSES: usize = 3;
const TASKS: usize = 8;
const TURNS: usize = 60;
const TTL: Duration = Duration::from_secs(5);

/// The work under the lock.
#[derive(Debug, Default)]
struct Work {
    inside: AtomicUsize,
    /// The largest token so far.
    token: AtomicU64,
}

impl Work {
    async fn run(&self, guard: &LockGuard, turn: usize) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "another one works");
        let token = guard.fencing_token().await.expect("it is held").get();
        let before = self.token.swap(token, Ordering::SeqCst);
        assert!(before < token, "{before} before {token}");
        if turn.is_multiple_of(7) {
            tokio::task::yield_now().await;
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn turns(locks: LockManager, task: usize, work: Arc<Work>) {
    for turn in 0..TURNS {
        let acquire = locks.fair("k").ttl(TTL).fencing(true).strategy(strategy::wait()).acquire();
        let guard = if (task + turn).is_multiple_of(5) {
            let patience = Duration::from_micros(fastrand::u64(0..3_000));
            let Ok(guard) = tokio::time::timeout(patience, acquire).await else { continue };
            guard
        } else if fastrand::u8(..120) == 0 {
            unpolled(acquire).await
        } else {
            acquire.await
        };
        let guard = guard.expect("granted");
        work.run(&guard, turn).await;
        if turn.is_multiple_of(3) {
            drop(guard);
        } else if let Err(error) = guard.release().await {
            // The connection was cut, and the background goes on.
            assert!(error.is_temporary(), "{error}");
        }
    }
}

/// Polls a future for a moment, not at all for seconds, and then to its end.
async fn unpolled<F: Future>(future: F) -> F::Output {
    let mut future = Box::pin(future);
    match tokio::time::timeout(Duration::from_micros(fastrand::u64(0..3_000)), &mut future).await {
        Ok(output) => output,
        Err(_) => {
            // Longer than a waiter may be late, and for some than its lease.
            tokio::time::sleep(ms(fastrand::u64(500..3_500))).await;
            future.await
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_storm_of_groups_shows_one_holder_at_a_time_and_stops_nobody() {
    let server = RedisServer::start();
    let (work, mut tasks) = (Arc::<Work>::default(), JoinSet::new());
    for _ in 0..PROCESSES {
        let locks = manager(&server).await;
        for task in 0..TASKS {
            tasks.spawn(turns(locks.clone(), task, Arc::clone(&work)));
        }
    }
    // A connection that lives for less than half a second is dialled again ever later, and nobody would get anywhere.
    let mut cuts = tokio::time::interval(ms(700));
    let all = async {
        loop {
            tokio::select! {
                done = tasks.join_next() => match done {
                    Some(done) => done.expect("no panic"),
                    None => return,
                },
                _ = cuts.tick() => {
                    server.cut_clients();
                }
            }
        }
    };
    within(Duration::from_secs(120), "all turns", all).await;
    wait_until("nothing but tokens is left", PATIENCE, async || {
        server.keys().iter().all(|key| key == "{k}:f")
    })
    .await;
}

/// Leases end in the middle of groups, beside a lock without order on the same keys.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "what came of it is wanted as well as the verdict")]
async fn a_storm_of_groups_with_short_leases_shows_one_holder_at_a_time() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let server = RedisServer::start();
    let ways = [Proxy::before(&server), Proxy::before(&server), Proxy::before(&server)];
    let mut managers = Vec::new();
    for way in &ways {
        managers.push(connect(&way.url()).await);
    }
    let load = Load {
        kinds: &[Kind::Fair, Kind::Fair, Kind::Fair, Kind::Lock],
        drops: Some((5, ms(60))),
        ..Load::exclusive(ms(400), LONG)
    };
    let [first, second] = [(); 2].map(|()| random.fork());
    let end = End::With(300, Duration::from_secs(8), Duration::from_secs(300));
    let storm = async {
        tokio::select! {
            history = load.run(&managers, 8, end, &mut random) => history,
            () = disturb(&ways[0], ms(500), first) => unreachable!("it never ends"),
            () = disturb(&ways[1], ms(500), second) => unreachable!("it never ends"),
        }
    };
    // The last turns end long before their wait.
    let history = within(5 * LONG, "all turns", storm).await;
    ways.iter().for_each(Proxy::heal);
    println!("{:?} holds, and with a token", count(&history));
    history.check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    wait_until("nothing but tokens is left", PATIENCE, async || {
        server.keys().iter().all(|key| key.ends_with(":f"))
    })
    .await;
}
