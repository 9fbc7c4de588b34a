//! Workers that import files into a database, and are killed in the middle.
//!
//! ```sh
//! cargo run -p lock-examples --features databases --example import_worker
//! LOCK_URL=redis://127.0.0.1:6379/ DATABASE_URL=postgres://postgres@127.0.0.1/postgres \
//!     cargo run -p lock-examples --features databases,redis --example import_worker -- --crashes 20
//! ```
//!
//! | option | means | default |
//! | --- | --- | --- |
//! | `--workers` | how many workers there are | 4 |
//! | `--groups`, `--tasks`, `--lines` | how many groups, tasks in each, and lines in each of these | 2, 3, 100 |
//! | `--line` | how long a line takes, in seconds | 0.005 |
//! | `--ttl` | the lease of the locks, in seconds | 10 |
//! | `--crashes`, `--crash-every` | kills a worker with `kill -9` at most so often, with such a pause on average | 0, 0.3 |
//! | `--stall-every` | lets a worker stop itself for longer than the ttl, once in so many lines | never |
//! | `--without fence`, `--without lock` | leaves a protection out, to show its effect | |
//!
//! With `LOCK_URL`, the workers are processes, which this process starts, kills and starts again. Without `LOCK_URL`,
//! they are tasks with locks in memory. `DATABASE_URL` is a Postgres server or a file for SQLite, whose tables
//! `import_*` are made again at the start. Without `DATABASE_URL`, they are in a temporary file.
//!
//! One worker at a time works at a group of tasks, and the others wait for its lock. Three rules make sure that every
//! line is imported once. First, the line and the checkpoint are written in one transaction, so a crash leaves both or
//! none (`table.rs`). Second, every write compares the fencing token of the lock, so a worker that was stopped for too
//! long writes nothing more. Third, a worker that takes a task writes its token before it reads the checkpoint.
//!
//! After a crash, no worker continues the group until the lease of the dead worker expires, which takes at most
//! `--ttl`. Then the first waiting worker resumes at the checkpoint. If other workers died while they waited, each of
//! their places in the queue can cost up to two seconds more. A restarted worker finds its group by its name in the
//! table (`worker.rs`), and waits for the lock like the others.
//!
//! The program exits with status 1 if a task was not done, or a line was imported twice.
#![allow(clippy::print_stdout, reason = "the report is what this program is for")]

#[path = "../common/mod.rs"]
mod common;
mod fleet;
mod options;
mod report;
mod table;
mod worker;

use std::process::ExitCode;

use common::database::{Place, Result};
use common::store;
use options::Options;
use report::Report;
use table::Table;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::from_args(std::env::args().skip(1))?;
    let place = Place::from_env("import_worker")?;
    if let Some(number) = options.worker {
        fleet::work_alone(&options, number, &place.name).await?;
        return Ok(ExitCode::SUCCESS);
    }
    // A wrong `LOCK_URL` is reported before any worker is started.
    let store = fleet::locks(&options).await?.store();
    let table = Table::open(&place.name).await?;
    table.make(options.groups, options.tasks, options.lines).await?;
    println!("locks                     in {store}");
    println!("tables                    in {}", table.database().name());
    if store::is_shared(store) {
        fleet::run_processes(&options, &place.name, &table).await?;
    } else if options.crashes > 0 || options.stall_every.is_some() {
        return Err(
            "only a process can crash or be stopped: set LOCK_URL to a store that processes share".into()
        );
    } else {
        fleet::run_tasks(&options, &place.name).await?;
    }
    let report = Report::new(table.counts().await?, &table.events().await?, &table.progress().await?);
    print!("{report}");
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
