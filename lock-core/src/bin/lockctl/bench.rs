//! Measures how fast a store grants and releases locks.

use std::time::Duration;

use lock_core::{LockManager, strategy};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::args::{Bench, Store};
use crate::exit::{Exit, Fault};
use crate::out;
use crate::table;

/// Runs tasks that acquire and release locks. Prints the rate of locks, and the times that they take.
pub(crate) async fn bench(store: &Store, options: &Bench, json: bool) -> Result<Exit, Fault> {
    let locks = store.connect().await?;
    let end = Instant::now() + options.time;
    let mut tasks = JoinSet::new();
    for number in 0..options.tasks {
        let number = if options.hot { 0 } else { number };
        tasks.spawn(cycles(locks.clone(), format!("lockctl:bench:{}:{number}", std::process::id()), end));
    }
    let mut took = Vec::new();
    while let Some(done) = tasks.join_next().await {
        took.extend(done.map_err(|error| Fault::new(Exit::STORE, error.to_string()))??);
    }
    took.sort_unstable();
    let part = |percent: usize| took.get(took.len() * percent / 100).copied().unwrap_or_default();
    let rate = took.len() as f64 / options.time.as_secs_f64();
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    if json {
        let line = serde_json::json!({ "tasks": options.tasks, "cycles": took.len(), "per_second": rate.round(), "p50_us": micros(part(50)), "p99_us": micros(part(99)) });
        out::line(line);
    } else {
        out::line(format_args!(
            "{rate:.0} locks a second over {}, {} tasks on {}; half of them took {} us or less, 99 of 100 {} us",
            locks.store(),
            options.tasks,
            if options.hot { "one key" } else { "a key each" },
            micros(part(50)),
            micros(part(99)),
        ));
        out::line(format_args!(
            "measured for {}; nothing was done under the lock",
            table::short(options.time)
        ));
    }
    Ok(Exit::OK)
}

async fn cycles(locks: LockManager, key: String, end: Instant) -> Result<Vec<Duration>, Fault> {
    let mut took = Vec::new();
    while Instant::now() < end {
        let begun = Instant::now();
        let guard = locks.lock(key.as_str()).strategy(strategy::wait()).acquire().await?;
        guard.release().await?;
        took.push(begun.elapsed());
    }
    Ok(took)
}
