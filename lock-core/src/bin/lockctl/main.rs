//! `lockctl` acquires, shows and releases the locks of a store. It is a tool for shells, cron jobs and the person on
//! call.
//!
//! | file | contains |
//! | --- | --- |
//! | `args` | the command line |
//! | `store` | the manager of the store that the command line names |
//! | `acquire`, `progress` | the wait for a lock, and its display |
//! | `run`, `supervise`, `lease` | a command under a lock, and its end before the lease is over |
//! | `child`, `target`, `warden`, `watch` | the processes of a command, and the process that ends them if `lockctl` cannot |
//! | `detached` | a lock that outlives `lockctl`, by its token |
//! | `hold`, `leader`, `wait` | a lock until a signal; the leader of a name; the wait for a free key |
//! | `list`, `top`, `table`, `force` | the locks and their holders; a release by force |
//! | `ping`, `doctor` | whether a store answers; the problems that endanger its locks |
//! | `bench`, `postgres` | the rate of a store; the tables of Postgres |
//! | `exit`, `out` | exit codes; the standard output |
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks on its outputs")]
#![allow(clippy::disallowed_methods, reason = "its times are for people, and no lease depends on them")]

mod acquire;
mod args;
mod bench;
mod child;
mod detached;
mod doctor;
mod exit;
mod force;
mod hold;
mod leader;
mod lease;
mod list;
mod out;
mod ping;
#[cfg(feature = "postgres")]
mod postgres;
mod progress;
mod run;
mod signals;
mod store;
mod supervise;
mod table;
mod target;
mod top;
mod wait;
mod warden;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use rustix::process::Pid;

use args::{Args, Command};
use exit::{Exit, Fault};
use target::Target;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refused(&error),
    };
    // The runtime has one thread, which runs as long as `lockctl`. A command is started with a parent-death signal, so
    // the kernel kills the command when the thread that started the command ends.
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

/// Prints the reason why the command line is refused, or the help if the command line requests it.
fn refused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let mut options = std::env::args_os().take_while(|argument| argument != "--");
    if options.any(|argument| argument == "--json") {
        let text = error.render().to_string();
        return Fault::usage(text.trim_start_matches("error: ").trim_end()).report(true);
    }
    let _ = error.print();
    Exit::USAGE.into()
}

async fn execute(args: Args) -> Result<Exit, Fault> {
    let Args { store, json, command } = args;
    match command {
        Command::Run(options) => run::run(&store, options, json).await,
        Command::Hold(options) => hold::hold(&store, &options, json).await,
        Command::Acquire(options) => detached::acquire(&store, &options, json).await,
        Command::Renew { lock, ttl } => detached::renew(&store, &lock, ttl, json).await,
        Command::Release(lock) => detached::release(&store, &lock, json).await,
        Command::Leader(options) => leader::leader(&store, options, json).await,
        Command::Wait(options) => wait::wait(&store, &options, json).await,
        Command::List(options) => list::list(&store, &options, json).await,
        Command::Show { key } => list::show(&store, &key, json).await,
        Command::Top { every } => top::top(&store, every, json).await,
        Command::Available { key, permits } => list::available(&store, &key, permits, json).await,
        Command::ForceRelease(options) => force::force_release(&store, &options, json).await,
        Command::Ping => ping::ping(&store, json).await,
        Command::Doctor => doctor::doctor(&store, json).await,
        Command::Bench(options) => bench::bench(&store, &options, json).await,
        #[cfg(feature = "postgres")]
        Command::Migrate => postgres::migrate(&store, json).await,
        #[cfg(feature = "postgres")]
        Command::Sql { schema } => postgres::sql(&schema),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "lockctl", &mut std::io::stdout());
            Ok(Exit::OK)
        }
        Command::Exec { parent, command } => Err(child::exec(parent, &command)),
        Command::Warden { process, group, mark, session, grace, until } => {
            let process = Pid::from_raw(process).ok_or_else(|| Fault::usage("a process id is positive"))?;
            Ok(watch::watch(Target { process, group, mark, session }, grace, Duration::from_millis(until)))
        }
    }
}
