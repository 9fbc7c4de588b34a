//! Several schedulers could run a job at each tick, and one of them runs it.
//!
//! ```sh
//! cargo run -p lock-examples --features databases --example scheduler
//! LOCK_URL='redlock://10.0.0.1,10.0.0.2,10.0.0.3/?max_ttl=3s' DATABASE_URL=postgres://postgres@127.0.0.1/postgres \
//!     cargo run -p lock-examples --features databases,redlock --example scheduler -- --seconds 60 --kill-every 10
//! ```
//!
//! Times are in seconds, except `--minutes`.
//!
//! | option | means | default |
//! | --- | --- | --- |
//! | `--seconds`, `--minutes` | how long the program runs | 6 |
//! | `--processes` | how many schedulers there are | 3 |
//! | `--every` | the time between two ticks | 1 |
//! | `--estimate` | how long the job usually takes; the ttl is 120 % of it | 0.5 |
//! | `--look` | the longest pause between two checks of the table | 0.25 |
//! | `--min-hold` | the shortest time for which the key stays locked | 0.3 |
//! | `--kill-every` | the time between two kills (`kill -9`) of the process that runs the job | never |
//! | `--kills` | the number of kills after which the program ends | never |
//! | `--pause-every` | the time between two pauses of that process, for twice the ttl | never |
//! | `--careless` | gives each scheduler its own lock, to show what the checks find | |
//!
//! With `LOCK_URL`, the schedulers are processes, which this process starts, kills and replaces. Without `LOCK_URL`,
//! they are tasks with locks in memory. `DATABASE_URL` is a Postgres server or a file for SQLite, whose tables
//! `scheduler_*` are made again at the start. Without `DATABASE_URL`, they are in a temporary file.
//!
//! A failover takes at most the ttl, for the dead holder's lease, and the pause until the next check of the table. The
//! ttl does not limit the job: the lock is renewed while the job runs, and some runs take over twice the ttl.
//! `scheduler.rs` has the lock, `table.rs` the statements that compare its fencing token, and `hours.rs` a test of four
//! hours that takes some seconds.
//!
//! The program exits with status 1 if two runs overlapped, a tick was finished twice, or no scheduler took over from a
//! dead one. ZooKeeper and Postgres with `mode=advisory` have no `min_hold`, and refuse it. etcd has no short leases:
//! use `--estimate 2.5`.
#![allow(clippy::print_stdout, reason = "the report is what this program is for")]

#[path = "../common/mod.rs"]
mod common;
mod fleet;
#[cfg(test)]
mod hours;
mod journal;
mod options;
mod report;
mod scheduler;
mod table;

use std::process::ExitCode;

use common::clock;
use common::database::{Place, Result};
use common::store;
use fleet::Processes;
use options::Options;
use report::Report;
use scheduler::JOB;
use table::Table;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::from_args(std::env::args().skip(1))?;
    let place = Place::from_env("scheduler")?;
    if let Some(name) = &options.worker {
        fleet::serve_alone(&options, name, &place.name).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let (table, plan) = (Table::open(&place.name, JOB).await?, options.plan());
    table.make(plan.due(clock::now())).await?;
    // A wrong `LOCK_URL` is reported before any scheduler is started.
    let store = fleet::locks(&options).await?.store();
    println!("locks     in {store}");
    println!("tables    in {}", table.database().name());
    println!("job       each {:?}, estimate {:?}, ttl {:?}\n", plan.every, plan.estimate, plan.ttl());
    if store::is_shared(store) {
        Processes::start(&options, &table, &place.name)?.run().await?;
    } else if options.kill_every.is_some() || options.pause_every.is_some() {
        return Err(
            "only a process can be killed or stopped: set LOCK_URL to a store that processes share".into()
        );
    } else {
        fleet::run_tasks(&options, &place.name).await?;
    }
    let report = Report::new(table.runs().await?, table.events().await?);
    println!("{report}");
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
