//! Measures one key, with 32 tasks of one process.

use std::sync::Arc;
use std::time::Duration;

use lock_core::LockManager;
use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;

use crate::Scale;
use crate::player::{Section, contend, now};
use crate::rig::{Server, throughput};
use crate::score::{Score, Table, load};

const TASKS: usize = 32;

/// The tasks run for this long before the measurement begins.
const WARM_UP: Duration = Duration::from_millis(200);

pub(crate) async fn memory(scale: Scale) {
    println!(
        "hot key, {TASKS} tasks of one process, memory ({} rounds of {:?}, medians; ratios are to the first row)",
        scale.rounds, scale.window
    );
    let locks = LockManager::in_memory();
    for (section, what) in [(Section::Empty, "empty section"), (Section::Yield, "section that yields once")] {
        println!(" {what}");
        let mut table = Table::default();
        for _ in 0..scale.rounds {
            let scores = mutexes(section, scale.window).await;
            table.add("tokio Mutex", &scores, scale.window, None);
            for kind in ["lock", "fair"] {
                let scores = round(&locks, kind, TASKS, section, scale.window).await;
                table.add(&format!("lock-core, {kind}"), &scores, scale.window, None);
            }
        }
        table.print();
    }
}

pub(crate) async fn redis(server: &Server, scale: Scale) {
    println!(
        "hot key, {TASKS} tasks of one process, redis ({} rounds of {:?}, medians; ratios are to the first row)",
        scale.rounds, scale.window
    );
    let locks = LockManager::connect(&server.url()).await.expect("connects");
    let connection = server.connection().await;
    let mut table = Table::default();
    for _ in 0..scale.rounds {
        table.add_rate("raw, 1 task", raw(connection.clone(), 1, scale.window / 2).await);
        table.add_rate("raw, own keys", raw(connection.clone(), TASKS, scale.window / 2).await);
        for kind in ["lock", "fair"] {
            let before = load(server).await;
            let scores = round(&locks, kind, TASKS, Section::Empty, scale.window).await;
            let load = load(server).await.since(before);
            table.add(&format!("lock-core, {kind}"), &scores, scale.window, Some(load));
        }
    }
    table.print();
}

/// Runs a warm-up and then one measured window.
pub(crate) async fn round(
    locks: &LockManager,
    kind: &str,
    tasks: usize,
    section: Section,
    window: Duration,
) -> Vec<Score> {
    let from = now() + nanos(WARM_UP);
    contend(locks, kind, tasks, section, (from, from + nanos(window))).await
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a short time")
}

/// Runs the same loop on a mutex inside the process.
async fn mutexes(section: Section, window: Duration) -> Vec<Score> {
    let mutex = Arc::new(Mutex::new(()));
    let from = now() + nanos(WARM_UP);
    let until = from + nanos(window);
    let running: Vec<_> = (0..TASKS)
        .map(|_| {
            let mutex = Arc::clone(&mutex);
            tokio::spawn(async move {
                let mut score = Score::default();
                loop {
                    let asked = now();
                    let guard = mutex.lock().await;
                    let granted = now();
                    section.run().await;
                    drop(guard);
                    if granted >= until {
                        return score;
                    }
                    if granted >= from {
                        score.acquisitions += 1;
                        score.waits.push(granted - asked);
                    }
                    tokio::task::consume_budget().await;
                }
            })
        })
        .collect();
    let mut scores = Vec::new();
    for task in running {
        scores.push(task.await.expect("no panic"));
    }
    scores
}

/// Runs `SET NX PX` and `DEL` on a separate key for each task, which is the least that a lock can cost the server. With
/// one task, a cycle takes two round trips. A hand-off between clients needs at least as many.
pub(crate) async fn raw(connection: MultiplexedConnection, tasks: usize, window: Duration) -> f64 {
    let cycle = move |task: usize| {
        let mut connection = connection.clone();
        async move {
            let key = format!("raw:{task}");
            let mut set = redis::cmd("SET");
            set.arg(&key).arg("owner").arg("NX").arg("PX").arg(10_000);
            let _: Option<String> = set.query_async(&mut connection).await.expect("the server answers");
            let mut delete = redis::cmd("DEL");
            let _: i64 = delete.arg(&key).query_async(&mut connection).await.expect("the server answers");
            tokio::task::consume_budget().await;
        }
    };
    throughput(tasks, window, cycle).await
}
