//! Measures many ordered waiters for one key on the memory store: their cost while they wait, and the cost of the
//! hand-offs.
//!
//! ```sh
//! cargo bench -p lock-core --bench waiters
//! ```
//!
//! Each row has two limits: the waiters use less than 5 % of a core while all wait, and all are served within 2 s after
//! the release. The last two rows have one more limit: a hand-off among 8,000 waiters costs less than twice as much as
//! one among 500. The bench ends with an error if a limit is exceeded.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lock_core::strategy::wait;
use lock_core::{Kind, LockManager};
use tokio::task::JoinSet;

/// The time for which the waiters only wait.
const WINDOW: Duration = Duration::from_secs(2);
/// The limit of the share of a core that the waiters use while they only wait.
const IDLE_BAR: f64 = 0.05;
/// The limit of the time from the release until the last waiter is served.
const SERVED_BAR: Duration = Duration::from_secs(2);
/// The time after which a row is abandoned.
const PATIENCE: Duration = Duration::from_secs(20);
/// The limit of the ratio between the cost of a hand-off among many waiters and among few.
const GROWTH_BAR: f64 = 2.0;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let missed = runtime.block_on(async {
        println!("memory, one key, one manager; bars: idle < 5 % of a core, all served within 2 s");
        let semaphore = Kind::Semaphore { permits: 4 };
        let rows = [
            (Kind::Fair, 1_000),
            (Kind::Fair, 4_000),
            (semaphore, 4_000),
            (Kind::Write, 4_000),
            (Kind::Read, 4_000),
        ];
        let mut missed = 0;
        for (kind, waiters) in rows {
            missed += usize::from(!Row::of(kind, waiters).await.print());
        }
        let (few, many) = (Row::of(Kind::Fair, 500).await, Row::of(Kind::Fair, 8_000).await);
        missed += usize::from(!growth(&few, &many));
        missed
    });
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Row {
    kind: Kind,
    waiters: usize,
    served: usize,
    /// The share of a core that the waiters used while they only waited.
    idle: f64,
    took: Duration,
    busy: Duration,
}

impl Row {
    /// Measures `waiters` waiters for a held lock, which is released after all of them have queued.
    async fn of(kind: Kind, waiters: usize) -> Self {
        let locks = LockManager::in_memory();
        // A reader as the holder would not block readers, so the holder is a writer.
        let holds = if kind == Kind::Read { Kind::Write } else { kind };
        let permits = if let Kind::Semaphore { permits } = kind { permits } else { 1 };
        let mut holders = Vec::new();
        for _ in 0..permits {
            holders.push(request(&locks, holds).acquire().await.expect("nobody else has it"));
        }
        let mut tasks = JoinSet::new();
        for _ in 0..waiters {
            let request = request(&locks, kind).strategy(wait());
            tasks.spawn(async move {
                let guard = request.acquire().await.expect("it waits for ever");
                guard.release().await.expect("the store answers");
            });
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (before, start) = (cpu(), Instant::now());
        tokio::time::sleep(WINDOW).await;
        let idle = (cpu() - before).as_secs_f64() / start.elapsed().as_secs_f64();

        let (before, start, mut served) = (cpu(), Instant::now(), 0);
        for holder in holders {
            holder.release().await.expect("the store answers");
        }
        let all = async {
            while let Some(task) = tasks.join_next().await {
                task.expect("no panic");
                served += 1;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, all).await;
        Self { kind, waiters, served, idle, took: start.elapsed(), busy: cpu() - before }
    }

    fn handoff(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a count of waiters")]
        let served = self.served.max(1) as f64;
        self.busy.as_secs_f64() * 1e6 / served
    }

    /// Prints the row. Returns whether the row is within its limits.
    fn print(&self) -> bool {
        let done = self.served == self.waiters && self.took <= SERVED_BAR;
        println!(
            "  {:<14} {:>5} waiters: idle {:>6.2} % ({:>5.2} of its bar), {:>5} served in {:>7.3} s ({:>5.2} of its bar), \
             {:>8.2} us of CPU each",
            self.kind.to_string(),
            self.waiters,
            100.0 * self.idle,
            self.idle / IDLE_BAR,
            self.served,
            self.took.as_secs_f64(),
            self.took.as_secs_f64() / SERVED_BAR.as_secs_f64(),
            self.handoff(),
        );
        done && self.idle < IDLE_BAR
    }
}

/// Prints both rows, and how the cost of a hand-off grows with the waiters. Returns whether all limits are kept.
fn growth(few: &Row, many: &Row) -> bool {
    let all = few.print() & many.print();
    let growth = many.handoff() / few.handoff();
    println!(
        "  a hand-off among {} costs {growth:.2} x of one among {} (bar {GROWTH_BAR} x)",
        many.waiters, few.waiters
    );
    all && growth < GROWTH_BAR
}

fn request(locks: &LockManager, kind: Kind) -> lock_core::LockRequest {
    match kind {
        Kind::Fair => locks.fair("k"),
        Kind::Read => locks.read("k"),
        Kind::Write => locks.write("k"),
        Kind::Semaphore { permits } => locks.semaphore("k", permits),
        _ => locks.lock("k"),
    }
}

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
