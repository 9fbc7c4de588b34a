//! A separate process for tests that need more than one: `worker <mode> [--name value]..`.
//!
//! - `increment --file F --count N --url U`: adds 1 to the counter in F, N times, each time under a lock on the server
//!   at U. Instead of the URL, `--installed` installs a manager from the environment, as a service does, and
//!   `--unlocked` uses no lock.
//! - `hold --url U --key K --ttl MS --effect F`: acquires K (with `--kind fair` in order of arrival, with `--wait`
//!   without a time limit), prints `HELD`, and writes to F in every round once F exists. Prints `LOST <reason>` and ends
//!   when the lock is lost.
//! - `linger --url U --key K --ttl MS`: repeatedly acquires and releases K, and lets it linger for as long as
//!   possible. Prints `HELD` after the first time.
//! - `end --url U --key K --how H`: acquires K for a minute, prints `HELD`, waits for a line, ends the lock in the way
//!   H (see `ends`) and prints `ENDED`.
//! - `contend --url U --kinds K,K.. --tasks N --ttl MS --hold US --seed S --resource U`: repeatedly acquires keys, and
//!   prints a history (see `contend`).
//! - `lead --url U --key K --ttl MS --name N --resource U`: is a candidate for the lead of K, and prints its terms (see
//!   `lead`).
//! - `latch --url U --key K --ttl MS`: prints `READY`. For each line `count`, counts the latch K down and prints `LEFT
//!   <count>`. For a line `wait`, waits for the latch and prints `OPEN`.
//! - `serve`: starts a Redis server, prints `PORT <port>` and runs until its input ends.
//!
//! Answers are lines on the standard output. The end of the input is the command to stop.
#![allow(clippy::print_stdout, reason = "lines on the standard output are how a worker answers")]

mod careless;
mod contend;
mod ends;
mod hold;
mod lead;
#[path = "../../../redis_process/locked.rs"]
mod locked;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use lock_core::LockManager;
use lock_tests::{Counter, RedisServer};
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let options = Options(arguments.collect());
    match mode.as_str() {
        "increment" => runtime().block_on(increment(&options)),
        "contend" => runtime().block_on(contend::contend(&options)),
        "hold" => runtime().block_on(hold::hold(&options)),
        "linger" => runtime().block_on(hold::linger(&options)),
        "end" => ends::end(&options),
        "lead" => runtime().block_on(lead::lead(&options)),
        "latch" => runtime().block_on(latch(&options)),
        "serve" => serve(),
        other => panic!("worker has no mode {other:?}"),
    }
    ExitCode::SUCCESS
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// The arguments after the mode.
struct Options(Vec<String>);

impl Options {
    fn text(&self, name: &str) -> &str {
        let at = self.0.iter().position(|option| option == name);
        let value = at.and_then(|at| self.0.get(at + 1));
        value.unwrap_or_else(|| panic!("worker needs {name} and a value behind it"))
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_else(|_| panic!("worker needs a number behind {name}"))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|option| option == name)
    }

    async fn manager(&self) -> LockManager {
        LockManager::connect(self.text("--url")).await.expect("the server takes locks")
    }
}

async fn increment(options: &Options) {
    let counter = Counter::open(Path::new(options.text("--file")));
    let count = options.number("--count");
    if options.has("--unlocked") {
        for _ in 0..count {
            counter.add_one(Duration::from_millis(1)).await;
        }
    } else if options.has("--installed") {
        LockManager::from_env().await.expect("the server takes locks").install().expect("the first one");
        for _ in 0..count {
            locked::increment_installed(&counter).await.expect("the lock is kept");
        }
    } else {
        let locks = options.manager().await;
        for _ in 0..count {
            locked::increment(&locks, &counter).await.expect("the lock is kept");
        }
    }
}

async fn latch(options: &Options) {
    let locks = options.manager().await;
    let ttl = Duration::from_millis(options.number("--ttl"));
    let latch = locks.latch(options.text("--key")).ttl(ttl);
    println!("READY");
    loop {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("cannot read the input");
        match line.trim() {
            "count" => println!("LEFT {}", latch.count_down().await.expect("the store answers")),
            "wait" => {
                println!("WAITS");
                latch.wait().await.expect("it opens");
                println!("OPEN");
            }
            _ => return,
        }
    }
}

fn serve() {
    let server = RedisServer::start();
    println!("PORT {}", server.port());
    wait_for_line();
}

/// Waits for a line, or for the end of the input.
fn wait_for_line() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("cannot read the input");
}
