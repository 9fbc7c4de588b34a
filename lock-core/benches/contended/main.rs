//! Measures many contenders for one key: their throughput, their fairness, and their cost for the server.
//!
//! ```sh
//! cargo bench -p lock-core --features redis --bench contended                   # everything, about two minutes
//! cargo bench -p lock-core --features redis --bench contended -- short          # everything, about a minute
//! cargo bench -p lock-core --features redis --bench contended -- short handoff  # one of: hot processes handoff
//!                                                                               #         queue shared unpolled
//! cargo bench -p lock-core --features redis --bench contended -- unix           # over a Unix socket, not TCP
//! ```
//!
//! The server has one core. The contenders of all processes share the other core. The critical sections are empty
//! unless a row says otherwise. `wait` is the time from the call to the grant. Jain's index of n contenders is 1 if all
//! get the same share, and 1/n if one contender gets everything.
//!
//! `scripts` and `SET` are numbers of commands for each acquisition, as the server counts them. `SET` includes the
//! commands inside scripts, so the sum is an upper bound of the commands that crossed the network. If only scripts run
//! (`fair`, and every contended key), `scripts` alone is the exact number. If the machine itself paused, the bench
//! prints a line that says so. The next row is then worthless.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

mod handoff;
mod hot;
mod player;
mod processes;
mod queue;
#[path = "../rig/mod.rs"]
mod rig;
mod score;
mod shared;
mod unpolled;

use std::time::Duration;

use rig::Server;

const WORDS: &[&str] = &["short", "unix", "hot", "processes", "handoff", "queue", "shared", "unpolled"];

/// The duration and the number of the rounds.
#[derive(Clone, Copy)]
struct Scale {
    rounds: usize,
    window: Duration,
    handoffs: usize,
}

const FULL: Scale = Scale { rounds: 5, window: Duration::from_secs(2), handoffs: 200 };
const SHORT: Scale = Scale { rounds: 3, window: Duration::from_secs(1), handoffs: 60 };

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if arguments.first().is_some_and(|word| word == player::ROLE) {
        player::main(&arguments[1..]);
        return;
    }
    let unknown = arguments.iter().find(|word| !WORDS.contains(&word.as_str()));
    assert!(unknown.is_none(), "unknown word {unknown:?}: expected some of {WORDS:?}");
    let scale = if arguments.iter().any(|word| word == "short") { SHORT } else { FULL };
    let unix = arguments.iter().any(|word| word == "unix");
    let only: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !["short", "unix"].contains(word)).collect();
    let wanted = |name| only.is_empty() || only.contains(&name);
    let server = Server::start_over(unix);
    std::thread::spawn(watch);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if wanted("hot") {
            hot::memory(scale).await;
            hot::redis(&server, scale).await;
        }
        if wanted("processes") {
            processes::run(&server, scale).await;
        }
        if wanted("handoff") {
            handoff::processes(&server, scale).await;
            handoff::tasks(&server, scale).await;
            handoff::followers(&server, scale).await;
        }
        if wanted("queue") {
            queue::run(&server, scale).await;
        }
        if wanted("shared") {
            shared::run(&server, scale).await;
        }
        if wanted("unpolled") {
            unpolled::run(&server, scale).await;
        }
    });
}

/// Prints a line whenever this process did not run for a while.
fn watch() {
    const TICK: Duration = Duration::from_millis(20);
    const STILL: Duration = Duration::from_millis(200);
    loop {
        let before = player::now();
        std::thread::sleep(TICK);
        let gap = Duration::from_nanos(player::now() - before);
        if gap > STILL {
            println!("  (the machine stood still for {gap:.1?})");
        }
    }
}
