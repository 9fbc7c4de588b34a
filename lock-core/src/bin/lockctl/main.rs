//! `lockctl`: takes, shows and frees the locks of a store, for a shell, a cron job and the person on call.
//!
//! | file | holds |
//! | --- | --- |
//! | `args` | the command line |
//! | `store` | the manager of the store that the command line names |
//! | `acquire`, `progress` | the wait for a lock, and what is shown meanwhile |
//! | `run`, `lease`, `child`, `target`, `warden` | a command under a lock: its process, and its end before the lease is over |
//! | `hold`, `leader`, `wait` | a lock until a signal; the lead of a name; the wait for a free key |
//! | `list`, `table`, `force` | who holds what, and its release by force |
//! | `bench`, `postgres` | the rate of a store; the tables of Postgres |
//! | `exit`, `out` | exit codes; the standard output |
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks on its outputs")]
#![allow(clippy::disallowed_methods, reason = "its times are for people, and no lease depends on them")]

mod acquire;
mod args;
mod bench;
mod child;
mod exit;
mod force;
mod hold;
mod leader;
mod lease;
mod list;
mod out;
#[cfg(feature = "postgres")]
mod postgres;
mod progress;
mod run;
mod signals;
mod store;
mod table;
mod target;
mod wait;
mod warden;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, Command};
use exit::{Exit, Fault};

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    // One thread: the kernel ends a command with the thread that has started it.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Fault::new(Exit::STORE, format!("no runtime: {error}")).report(false),
    };
    let json = args.json;
    match runtime.block_on(execute(args)) {
        Ok(exit) => exit.into(),
        Err(fault) => fault.report(json),
    }
}

async fn execute(args: Args) -> Result<Exit, Fault> {
    let Args { store, json, command } = args;
    match command {
        Command::Run(options) => run::run(&store, options, json).await,
        Command::Hold(options) => hold::hold(&store, &options, json).await,
        Command::Leader(options) => leader::leader(&store, options, json).await,
        Command::Wait(options) => wait::wait(&store, &options, json).await,
        Command::List(options) => list::list(&store, &options, json).await,
        Command::Show { key } => list::show(&store, &key, json).await,
        Command::Top { every } => list::top(&store, every).await,
        Command::Available { key, permits } => list::available(&store, &key, permits, json).await,
        Command::ForceRelease(options) => force::force_release(&store, &options, json).await,
        Command::Bench(options) => bench::bench(&store, &options, json).await,
        #[cfg(feature = "postgres")]
        Command::Migrate => postgres::migrate(&store).await,
        #[cfg(feature = "postgres")]
        Command::Sql { schema } => postgres::sql(&schema),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "lockctl", &mut std::io::stdout());
            Ok(Exit::OK)
        }
        Command::Exec { parent, command } => Err(child::exec(parent, &command)),
        Command::Warden { process, group, mark, grace } => warden::watch(process, group, mark, grace),
    }
}
