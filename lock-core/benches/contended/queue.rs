//! Measures the cost of a short and of a long queue for the server.

use std::time::Duration;

use lock_core::LockManager;
use tokio::task::JoinSet;

use crate::Scale;
use crate::player::request;
use crate::rig::Server;
use crate::score::{Load, load, per};

/// This ttl is longer than the bench runs, so the measured scripts contain no renewal of the holder. The waiters still
/// send heartbeats for their queue entries.
const TTL: Duration = Duration::from_secs(120);
/// Each waiter sends more than two heartbeats within this time.
const BEATS: Duration = Duration::from_millis(1_600);

pub(crate) async fn run(server: &Server, scale: Scale) {
    println!(
        "a queue on one key, fair: what the server works for each call (network and dispatch not counted)"
    );
    for waiters in [10, 100, 1_000] {
        // A short queue is served in less time, so it is built more often.
        let times = (scale.rounds * 20 / waiters).max(1);
        let mut phases = [Load::default(); 3];
        for _ in 0..times {
            for (sum, load) in phases.iter_mut().zip(queue(server, waiters).await) {
                *sum = sum.plus(load);
            }
        }
        for (name, load) in ["arrive", "wait", "leave"].iter().zip(phases) {
            println!(
                "  {:<28} {:>12.1} us for each of {:>6} scripts   {:.2} of them for each waiter",
                format!("{waiters} waiters {name}"),
                per(load.script_micros, load.scripts),
                load.scripts,
                per(load.scripts, (waiters * times) as u64),
            );
        }
    }
}

/// Returns how many queue entries the server has.
async fn waiting(server: &Server) -> usize {
    let mut count = redis::cmd("ZCARD");
    count.arg("{hot-fair}:q");
    count.query_async(&mut server.connection().await).await.expect("the server answers")
}

/// Measures three phases: all waiters arrive and queue, all wait and send heartbeats, and all are served one by one.
async fn queue(server: &Server, waiters: usize) -> [Load; 3] {
    let locks = LockManager::connect(&server.url()).await.expect("connects");
    let guard = request(&locks, "fair").ttl(TTL).acquire().await.expect("the key is free");
    let start = load(server).await;
    let mut queue = JoinSet::new();
    for _ in 0..waiters {
        let request = request(&locks, "fair").ttl(TTL);
        queue.spawn(async move {
            let guard = request.acquire().await.expect("it waits for ever");
            drop(guard.release().await);
        });
    }
    while waiting(server).await < waiters {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let arrived = load(server).await;
    tokio::time::sleep(BEATS).await;
    let waited = load(server).await;
    guard.release().await.expect("the store answers");
    while let Some(served) = queue.join_next().await {
        served.expect("no panic");
    }
    let left = load(server).await;
    locks.shutdown(Duration::from_secs(1)).await;
    [arrived.since(start), waited.since(arrived), left.since(waited)]
}
