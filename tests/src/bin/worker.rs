//! A process of its own for tests that need more than one: `worker <mode> [--name value]..`.
//!
//! - `increment --file F --count N`: adds N to the counter in F, one by one. `--unlocked` leaves the lock away.
//! - `serve`: starts a Redis server, prints `PORT <port>` and goes on until its input ends.
//!
//! Answers are lines on the standard output. An input that ends is the order to stop.
#![allow(clippy::print_stdout, reason = "lines on the standard output are how a worker answers")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use lock_tests::{Counter, RedisServer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let options = Options(arguments.collect());
    match mode.as_str() {
        "increment" => increment(&options).await,
        "serve" => serve(),
        other => panic!("worker has no mode {other:?}"),
    }
    ExitCode::SUCCESS
}

/// What follows the mode.
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
}

async fn increment(options: &Options) {
    let counter = Counter::open(Path::new(options.text("--file")));
    assert!(options.has("--unlocked"), "only --unlocked is there yet");
    for _ in 0..options.number("--count") {
        counter.add_one(Duration::from_millis(1)).await;
    }
}

fn serve() {
    let server = RedisServer::start();
    println!("PORT {}", server.port());
    wait_for_line();
}

/// Returns when a line, or the end of the input, has come.
fn wait_for_line() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("cannot read the input");
}
