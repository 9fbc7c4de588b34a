//! Runs tasks that repeat a cycle in short rounds, and prints a table of their costs.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lock_core::{LockManager, strategy};

use crate::cpu;

pub(crate) const ROUNDS: usize = 5;
pub(crate) const WINDOW: Duration = Duration::from_secs(1);

/// The rate of one round, and the CPU time of a cycle in us.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    rate: f64,
    client: f64,
    server: f64,
}

/// Runs `tasks` tasks that repeat `cycle`, and measures one window after a warm-up. `server` returns the CPU time of
/// the server.
pub(crate) async fn round<F, Fut>(server: impl Fn() -> Duration, tasks: usize, cycle: F) -> Round
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (cycle, stop, count) = (cycle.clone(), Arc::clone(&stop), Arc::clone(&count));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    cycle(task).await;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    tokio::time::sleep(WINDOW / 5).await;
    let now = || (count.load(Ordering::Relaxed), Instant::now(), cpu::own(), server());
    let before = now();
    tokio::time::sleep(WINDOW).await;
    let after = now();
    stop.store(true, Ordering::Relaxed);
    for task in running {
        task.await.expect("a cycle does not panic");
    }
    #[allow(clippy::cast_precision_loss, reason = "a count of cycles")]
    let done = (after.0 - before.0).max(1) as f64;
    let each = |from: Duration, until: Duration| until.saturating_sub(from).as_secs_f64() * 1e6 / done;
    Round {
        rate: done / (after.1 - before.1).as_secs_f64(),
        client: each(before.2, after.2),
        server: each(before.3, after.3),
    }
}

/// The locks that the tasks acquire.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Lock,
    /// Like `Lock`, with a fencing token.
    Fenced,
    Fair,
}

/// Runs [`round`] with a lock of the library. If `hot` is true, all tasks share one key. Otherwise each task has its
/// own key.
pub(crate) async fn lock_round(
    server: impl Fn() -> Duration,
    tasks: usize,
    locks: &LockManager,
    kind: Kind,
    hot: bool,
) -> Round {
    let locks = locks.clone();
    let cycle = move |task: usize| {
        let key = if hot { "hot".to_owned() } else { format!("free:{task}") };
        let request = match kind {
            Kind::Lock => locks.lock(format!("lock-{key}")),
            Kind::Fenced => locks.lock(format!("fenced-{key}")).fencing(true),
            Kind::Fair => locks.fair(format!("fair-{key}")),
        };
        async move {
            let guard = request.strategy(strategy::wait()).acquire().await.expect("it waits for ever");
            guard.release().await.expect("an answer");
        }
    };
    round(server, tasks, cycle).await
}

/// Prints the medians of `rounds`, and the medians of the ratios of each round to the same round of `base`.
pub(crate) fn print(name: &str, rounds: &[Round], base: &[Round]) {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let of = |part: fn(&Round) -> f64| {
        let ratios = rounds.iter().zip(base).map(|(round, base)| part(round) / part(base)).collect();
        (median(rounds.iter().map(part).collect()), median(ratios))
    };
    let ((rate, faster), (client, _), (server, busier)) =
        (of(|r| r.rate), of(|r| r.client), of(|r| r.server));
    println!(
        "  {name:<28} {rate:>8.0}/s {faster:>6.2} x   CPU of the client {client:>6.1} us, of the server {server:>6.1} us {busier:>5.2} x"
    );
}
