//! Measures the time from the call of a release to the start of the next hold.

use std::time::Duration;

use lock_core::LockManager;
use lock_core::leader::LeaderChange;

use crate::Scale;
use crate::player::{Player, now, turns};
use crate::rig::Server;
use crate::score::{load, per, spread};

/// One process holds the lock, and the others wait.
const PROCESSES: usize = 9;
const HOLD: Duration = Duration::from_millis(10);

pub(crate) async fn processes(server: &Server, scale: Scale) {
    let waiters = PROCESSES - 1;
    println!("hand-off between processes after a hold of {HOLD:?}, {waiters} waiting");
    println!("  {:<28} {}", "raw round trip, as seldom", spread(round_trips(server, scale.handoffs).await));
    for kind in ["lock", "fair"] {
        let mut players: Vec<Player> =
            (0..PROCESSES).map(|_| Player::start(&server.url(), kind, 1)).collect();
        let before = load(server).await;
        for player in &mut players {
            player.tell(&format!("hold {} {}", scale.handoffs.div_ceil(PROCESSES), HOLD.as_micros()));
        }
        let holds: Vec<_> = players.iter_mut().flat_map(|player| pairs(&player.numbers())).collect();
        let load = load(server).await.since(before);
        let count = holds.len() as u64;
        println!("  {:<28} {}", format!("lock-core, {kind}"), spread(gaps(holds, waiters)));
        let (scripts, sets) = (per(load.scripts, count), per(load.sets, count));
        println!("  {:<28} {scripts:>12.3} scripts and {sets:.3} SET for each acquisition", "");
    }
}

pub(crate) async fn tasks(server: &Server, scale: Scale) {
    println!("hand-off between tasks of one process after a hold of {HOLD:?}");
    let stores = [
        ("memory", LockManager::in_memory()),
        ("redis", LockManager::connect(&server.url()).await.expect("connects")),
    ];
    for (store, locks) in &stores {
        for kind in ["lock", "fair"] {
            for tasks in [2, PROCESSES] {
                let count = u64::try_from(scale.handoffs.div_ceil(tasks)).unwrap_or(u64::MAX);
                let running: Vec<_> = (0..tasks)
                    .map(|_| {
                        let locks = locks.clone();
                        tokio::spawn(async move { turns(&locks, kind, count, HOLD).await })
                    })
                    .collect();
                let mut holds = Vec::new();
                for task in running {
                    holds.extend(pairs(&task.await.expect("no panic")));
                }
                println!(
                    "  {:<28} {}",
                    format!("{kind}, {store}, {tasks} tasks"),
                    spread(gaps(holds, tasks - 1))
                );
            }
        }
    }
}

/// Measures the time from an election until a candidate of another manager sees the new leader. The candidate reads the
/// store every 20 ms.
pub(crate) async fn followers(server: &Server, scale: Scale) {
    const LOOKS_EVERY: Duration = Duration::from_millis(20);
    let candidate =
        async || LockManager::connect(&server.url()).await.expect("connects").leader("bench:leads");
    let (leads, follower) = (candidate().await, candidate().await);
    let mut changes = follower.changes().every(LOOKS_EVERY);
    let mut times = Vec::new();
    for _ in 0..scale.handoffs.div_ceil(PROCESSES) {
        while !matches!(changes.next().await, Some(LeaderChange::Vacant)) {}
        let leadership = leads.campaign().await.expect("nobody leads");
        let elected = now();
        while !matches!(changes.next().await, Some(LeaderChange::Other(_))) {}
        times.push(now() - elected);
        leadership.resign().await.expect("it led");
    }
    println!("  {:<28} {}", "a follower of a new leader", spread(times));
}

/// Measures a `PING` after each pause of [`HOLD`]. By then the server sleeps, as it does before a hand-off.
async fn round_trips(server: &Server, count: usize) -> Vec<u64> {
    let mut connection = server.connection().await;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        tokio::time::sleep(HOLD).await;
        let sent = now();
        let _: String = redis::cmd("PING").query_async(&mut connection).await.expect("the server answers");
        times.push(now() - sent);
    }
    times
}

/// Returns the time of the grant and the time of the release for each hold.
fn pairs(moments: &[u64]) -> Vec<(u64, u64)> {
    moments.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Returns the time from each release to the next grant, in the order of the holds. The last gaps are omitted, because
/// fewer processes wait by then.
fn gaps(mut holds: Vec<(u64, u64)>, waiters: usize) -> Vec<u64> {
    holds.sort_unstable();
    let all: Vec<u64> = holds.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].1)).collect();
    let full = all.len().saturating_sub(waiters);
    all[..full].to_vec()
}
