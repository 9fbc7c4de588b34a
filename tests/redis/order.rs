//! The order of a fair lock under random work. Waiters of several processes give up, and connections are cut.
//!
//! The tasks begin to wait in waves. A wave begins when all tasks of the earlier wave are queued, so no task may
//! overtake one of an earlier wave. Within a wave, no order is promised.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use lock_core::{LockManager, LockRequest, strategy};
use lock_tests::{RedisServer, wait_until};
use tokio::task::JoinHandle;

use crate::store::queue;
use crate::support::{calls, manager, ms, within};

const PROCESSES: usize = 4;
const WAVES: usize = 8;
const ROUNDS: usize = 25;
/// The longest time of a turn, whatever happens to other tasks.
const BOUND: Duration = Duration::from_secs(20);

/// A task that held the key: its wave, its number, and whether it may have lost its place because of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    wave: usize,
    number: usize,
    excused: bool,
}

/// Returns two turns of which the first has overtaken the second.
fn overtaken(turns: &[Turn]) -> Option<(Turn, Turn)> {
    let mut latest: Option<Turn> = None;
    for turn in turns.iter().filter(|turn| !turn.excused) {
        match latest {
            Some(before) if turn.wave < before.wave => return Some((before, *turn)),
            _ => latest = Some(*turn),
        }
    }
    None
}

#[test]
fn a_turn_of_an_earlier_wave_behind_a_later_one_was_overtaken() {
    let turn = |wave, number| Turn { wave, number, excused: false };
    let [a, b, c] = [turn(0, 1), turn(1, 0), turn(1, 2)];
    for (turns, found) in [
        (&[][..], None),
        (&[a, b, c], None),
        (&[a, c, b], None),
        (&[b, a], Some((b, a))),
        (&[b, Turn { excused: true, ..a }, c], None),
        (&[Turn { excused: true, ..b }, a], None),
    ] {
        assert_eq!(overtaken(turns), found, "{turns:?}");
    }
}

/// The state that the tasks of one round share.
#[derive(Debug, Default)]
struct Round {
    inside: AtomicUsize,
    turns: Mutex<Vec<Turn>>,
}

/// Counts a task that holds the key. The task may be dropped at any time.
struct Working<'a>(&'a AtomicUsize);

impl<'a> Working<'a> {
    fn begin(inside: &'a AtomicUsize) -> Self {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "another one works");
        Self(inside)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
#[should_panic(expected = "another one works")]
fn two_at_once_are_found_out() {
    let inside = AtomicUsize::new(0);
    let _first = Working::begin(&inside);
    let _second = Working::begin(&inside);
}

impl Round {
    async fn run(self: Arc<Self>, request: LockRequest, turn: Turn, hold: Duration) {
        let guard = within(BOUND, "a turn", request.acquire()).await.expect("granted");
        let working = Working::begin(&self.inside);
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).push(turn);
        if hold.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(hold).await;
        }
        assert!(guard.is_held(), "a lease of seconds is renewed");
        drop(working);
        // If there is no answer, the release continues in the background.
        let _ = guard.release().await;
    }
}

/// Waits until all sent requests are answered, and no waiter sends a request because of an answer.
async fn settled(server: &RedisServer, managers: &[LockManager]) {
    let mut before = None;
    loop {
        for locks in managers {
            // This request is answered after everything that this process has sent before, perhaps over a new
            // connection.
            wait_until("an answer", BOUND, async || match locks.lock("probe").try_acquire().await {
                Ok(Some(guard)) => guard.release().await.is_ok(),
                Ok(None) | Err(_) => false,
            })
            .await;
        }
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let now = asked(server);
        if before.replace(now) == Some(now) {
            return;
        }
    }
}

/// Returns how many requests found the key held and asked for a place. Each of them reads the end of the queue once.
fn asked(server: &RedisServer) -> u64 {
    calls(server, "zrevrange")
}

fn cut(server: &RedisServer) {
    server.cut_clients();
}

/// The waiters of a round: waves of tasks, some of which give up.
struct Waiters<'a> {
    server: &'a RedisServer,
    managers: &'a [LockManager],
    round: Arc<Round>,
    tasks: Vec<JoinHandle<()>>,
    /// Returns the request for a key.
    request: fn(&LockManager, &str) -> LockRequest,
}

impl Waiters<'_> {
    fn begins(&mut self, key: &str, wave: usize, random: &mut Rng) {
        let locks = &self.managers[random.usize(..self.managers.len())];
        let request = (self.request)(locks, key).strategy(strategy::wait());
        let request = request.ttl(ms(if random.u8(..8) == 0 { 5_000 } else { 2_000 }));
        // These requests need more from the store than a place. They lose the place if that is not answered.
        let excused = random.u8(..6) == 0;
        let request = if excused { request.fencing(true).renew(random.bool()) } else { request };
        let hold = match random.u8(..60) {
            // This hold is long enough for a renewal.
            0 if !excused => ms(900),
            1..20 => ms(random.u64(1..4)),
            _ => Duration::ZERO,
        };
        let turn = Turn { wave, number: self.tasks.len(), excused };
        self.tasks.push(tokio::spawn(Arc::clone(&self.round).run(request, turn, hold)));
    }

    /// Starts the waiters of all waves. Some of them give up, and connections are cut.
    async fn gather(&mut self, key: &str, random: &mut Rng) {
        for wave in 0..WAVES {
            for _ in 0..random.usize(1..6) {
                self.begins(key, wave, random);
            }
            if random.u8(..3) == 0 {
                // The cut happens in the middle of their requests.
                tokio::task::yield_now().await;
                self.gives_up(random);
            }
            settled(self.server, self.managers).await;
            if random.u8(..3) == 0 {
                self.gives_up(random);
                settled(self.server, self.managers).await;
            }
            if random.u8(..8) == 0 {
                cut(self.server);
                settled(self.server, self.managers).await;
            }
        }
    }

    fn gives_up(&self, random: &mut Rng) {
        if let Some(task) = random.choice(&self.tasks) {
            task.abort();
        }
    }
}

/// Runs one round on its own key. Returns the turns in the order of their grants.
async fn round(
    server: &RedisServer,
    managers: &[LockManager],
    request: fn(&LockManager, &str) -> LockRequest,
    number: usize,
    random: &mut Rng,
) -> Vec<Turn> {
    let key = format!("k{number}");
    let holder = &managers[random.usize(..managers.len())];
    let held =
        holder.fair(&*key).ttl(ms(60_000)).strategy(strategy::wait()).acquire().await.expect("it is free");
    let mut waiters = Waiters { server, managers, round: Arc::default(), tasks: Vec::new(), request };
    waiters.gather(&key, random).await;
    let _ = held.release().await;
    // The faults continue, and hit hand-offs, renewals and releases.
    for _ in 0..random.usize(..4) {
        tokio::time::sleep(ms(random.u64(1..20))).await;
        match random.bool() {
            true => cut(server),
            false => waiters.gives_up(random),
        }
    }
    for task in std::mem::take(&mut waiters.tasks) {
        match task.await {
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Ok(()) | Err(_) => {}
        }
    }
    wait_until("the queue is empty", BOUND, async || queue(server, &key) == (0, 0)).await;
    waiters.round.turns.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn processes(server: &RedisServer) -> Vec<LockManager> {
    let mut managers = Vec::new();
    for _ in 0..PROCESSES {
        managers.push(manager(server).await);
    }
    managers
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "what came of it is wanted as well as the verdict")]
async fn nobody_overtakes_those_whose_places_are_known() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let server = RedisServer::start();
    let (managers, mut sum) = (processes(&server).await, 0);
    for number in 0..ROUNDS {
        let turns = round(&server, &managers, |locks, key| locks.fair(key), number, &mut random).await;
        sum += turns.len();
        if let Some((first, behind)) = overtaken(&turns) {
            panic!("seed {seed}, round {number}: {first:?} overtook {behind:?} in {turns:?}");
        }
    }
    println!("{sum} turns");
    assert!(sum > ROUNDS * WAVES, "{sum} turns");
}

/// The same work with a lock without order fails the check.
#[tokio::test]
async fn without_order_somebody_overtakes() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let server = RedisServer::start();
    let managers = processes(&server).await;
    for number in 0..ROUNDS {
        let turns = round(&server, &managers, |locks, key| locks.lock(key), number, &mut random).await;
        if overtaken(&turns).is_some() {
            return;
        }
    }
    panic!("seed {seed}: nobody overtook anybody");
}
