//! Servers are repeatedly killed, flushed and restarted, and their clocks are set. Half of the attempts reach three of
//! five servers. The test checks the history of the holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lock_core::backend::Mode;
use lock_core::clock;
use lock_core::testkit::history::{History, Hold, Violation};
use lock_core::{LockGuard, LockManager};
use lock_tests::{Clock, RedisServer};
use tokio::task::JoinSet;

use crate::party::{Gate, Party};
use crate::support::{ms, new_cluster};

const TTL: Duration = ms(1_000);
const CLIENTS: usize = 4;
/// The number of keys. Each client requests all of them at once, so that one fault can cause as many overlaps.
const KEYS: usize = 12;
/// The smallest number of grants a second that a run needs to prove anything. Without the gate there are several
/// overlaps a second.
const GRANTS: f64 = 1.5;

/// Returns the duration set with `LOCK_FAULT_SECONDS`, if there is one.
fn asked_for() -> Option<Duration> {
    let seconds = std::env::var("LOCK_FAULT_SECONDS").ok()?.parse().expect("a number of seconds");
    Some(Duration::from_secs(seconds))
}

/// The end of a run: a time, or the first overlap of two holds. The control waits for an overlap.
#[derive(Clone, Debug)]
struct End {
    time: Duration,
    with_an_overlap: bool,
    history: History,
}

impl End {
    fn is_there(&self) -> bool {
        self.history.now() >= self.time || (self.with_an_overlap && overlaps(&self.history) > 0)
    }
}

/// A server and its clock.
type Node = (RedisServer, Arc<Clock>);

/// Harms the servers in sequence, 0.15 to 0.5 s apart, until the end. Usually it kills the server.
fn torment(mut nodes: Vec<Node>, mut random: fastrand::Rng, end: &End) -> usize {
    let mut faults = 0;
    while !end.is_there() {
        std::thread::sleep(ms(random.u64(150..500)));
        let which = random.usize(..nodes.len());
        let (server, clock) = &mut nodes[which];
        match random.u8(..10) {
            0 => {
                server.command(&["FLUSHALL"]);
            }
            1 => {
                server.command(&["SCRIPT", "FLUSH"]);
            }
            2 => clock.ahead(ms(random.u64(..5_000))),
            _ => server.restart(),
        }
        faults += 1;
    }
    faults
}

/// Runs one client until the end. It acquires, holds for a while and releases. Sometimes a new client replaces it.
async fn work(worker: usize, mut party: Party, mut random: fastrand::Rng, end: End) {
    let history = &end.history;
    while !end.is_there() {
        if random.u8(..8) == 0 {
            party.forget().await;
        }
        let (one, other) = (random.usize(..5), random.usize(..5));
        match random.u8(..4) {
            0 => party.refused_by(&[one, other]).await,
            1 => party.held_before(&[one, other]),
            _ => party.refused_by(&[]).await,
        }
        let rounds = (0..KEYS).map(|key| turn(worker, &party.locks, key, random.fork(), history));
        let mut turns: Vec<_> = rounds.map(Box::pin).collect();
        std::future::poll_fn(|cx| {
            turns.retain_mut(|turn| turn.as_mut().poll(cx).is_pending());
            if turns.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        tokio::time::sleep(ms(random.u64(1..40))).await;
    }
}

/// Requests one key, and holds it for a while.
async fn turn(worker: usize, locks: &LockManager, key: usize, mut random: fastrand::Rng, history: &History) {
    let asked = history.now();
    // A third of the holds are renewed, and some of these last for several leases.
    let renewed = random.u8(..3) == 0;
    let time = ms(random.u64(50..if renewed { 2_500 } else { 900 }));
    match locks.lock(format!("k{key}")).ttl(TTL).renew(renewed).try_acquire().await {
        Ok(Some(guard)) => hold(worker, guard, asked, history, time).await,
        Ok(None) => {}
        Err(error) => assert!(error.is_temporary(), "{error}"),
    }
}

async fn hold(worker: usize, guard: LockGuard, asked: Duration, history: &History, time: Duration) {
    let acquired = history.now();
    let deadline = acquired + guard.remaining();
    let lost = tokio::time::timeout(time, guard.lost()).await.is_ok();
    let now = history.now();
    // The end stays certain even if the lock was lost meanwhile.
    let ended = if lost || !guard.is_held() { now.min(deadline) } else { now };
    let (key, mode) = (guard.key().to_owned(), Mode::Exclusive);
    history.record(Hold { worker, key, mode, asked, acquired, ended, fence: None });
    let _ = guard.release().await;
}

/// Runs the torture. Returns the history of the holds.
async fn torture(gate: Gate, time: Duration, with_an_overlap: bool) -> History {
    let mut random = fastrand::Rng::new();
    let node = |_| {
        let clock = Arc::new(Clock::new());
        (RedisServer::builder().clock(&clock).start(), clock)
    };
    let nodes: Vec<Node> = (0..5).map(node).collect();
    let all: Vec<&RedisServer> = nodes.iter().map(|(server, _)| server).collect();
    new_cluster(&all, TTL).await;
    let mut parties = Vec::new();
    for _ in 0..CLIENTS {
        parties.push(Party::of(&all, gate, TTL).await);
    }
    let history = History::new(clock::Clock::Suspend);
    let end = End { time, with_an_overlap, history: history.clone() };
    let mut workers = JoinSet::new();
    for (worker, party) in parties.into_iter().enumerate() {
        workers.spawn(work(worker, party, random.fork(), end.clone()));
    }
    let nemesis = tokio::task::spawn_blocking(move || torment(nodes, random, &end));
    workers.join_all().await;
    let faults = nemesis.await.expect("no panic");
    report(gate, &history, faults);
    history
}

#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
fn report(gate: Gate, history: &History, faults: usize) {
    let (grants, seconds) = (history.holds().len(), history.now().as_secs_f64());
    let (rate, overlaps) = (grants as f64 / seconds, overlaps(history));
    println!("gate {gate:?}: {faults} faults, {grants} grants ({rate:.2} a second), {overlaps} overlaps");
}

/// Returns how many holds of a key began during another hold.
fn overlaps(history: &History) -> usize {
    let mut holds = history.holds();
    holds.sort_by_key(|hold| hold.acquired);
    let mut until: HashMap<String, Duration> = HashMap::new();
    let mut count = 0;
    for hold in holds {
        let until = until.entry(hold.key).or_default();
        count += usize::from(hold.acquired < *until);
        *until = hold.ended.max(*until);
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_holds_beside_another_while_servers_are_killed() {
    let time = asked_for().unwrap_or(Duration::from_secs(12));
    let history = torture(Gate::On, time, false).await;
    history.check().unwrap_or_else(|violation| panic!("{violation}"));
    let (grants, least) = (history.holds().len(), time.as_secs_f64() * GRANTS);
    assert!(grants as f64 >= least, "{grants} grants in {time:?}: this shows nothing");
}

/// This is the control: the same run without the gate. The check usually finds two holders within two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_gate_two_hold_at_once() {
    let time = asked_for().unwrap_or(Duration::from_secs(90));
    let verdict = torture(Gate::Off, time, asked_for().is_none()).await.check();
    assert!(matches!(verdict, Err(Violation::Overlap { .. })), "{verdict:?}");
}
