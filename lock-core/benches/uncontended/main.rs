//! Measures one uncontended cycle (acquire and release), and compares it with the cheapest equivalent.
//!
//! ```sh
//! cargo bench -p lock-core --features redis --bench uncontended
//! cargo bench -p lock-core --features redis --bench uncontended -- chart free_key.svg
//! cargo bench -p lock-core --features redis --bench uncontended -- durability
//! cargo bench -p lock-core --features redis --bench uncontended -- count memory 1 4000
//! ```
//!
//! On the memory store, the baseline is a tokio `Mutex`. On Redis, the baseline is a plain `SET key value NX PX ttl`
//! and an `EVALSHA` that compares and deletes, through the same driver in the same run. These are sent in three ways:
//! with gathered writes, with Nagle's algorithm, and with `TCP_NODELAY`. There are 1, 64 and 512 tasks, each with its
//! own key. The library and its baselines take turns in short rounds, and each ratio compares values of one round. With
//! `chart`, the tables are also drawn into a file.
//!
//! With `durability`, the bench uses a primary with a replica. It compares `durability=replicas(1)` in the URL with the
//! same URL without this option.
//!
//! With `count`, the bench runs an exact number of cycles of one kind on one thread and nothing else, for a tool that
//! counts instructions. The kinds are `mutex`, `memory`, `raw`, `redis`, `hot-mutex` and `hot`. The last two use one
//! key for all tasks. The README explains how to run the tool.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

mod chart;
mod count;
mod cycles;
mod durability;
mod memory;
mod redis;
#[path = "../rig/mod.rs"]
mod rig;

use std::time::Duration;

use rig::Server;

const ROUNDS: usize = 7;
const WINDOW: Duration = Duration::from_millis(600);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |word: &str| {
        let at = arguments.iter().position(|argument| argument == word)?;
        Some(&arguments[at + 1..])
    };
    let first = arguments.iter().skip(1).find(|word| !word.starts_with("--")).map(String::as_str);
    assert!(
        matches!(first, None | Some("chart" | "durability" | "count")),
        "unknown word {first:?}: the head of the file has all"
    );
    if let Some(arguments) = after("count") {
        return count::run(arguments);
    }
    let server = Server::start();
    // There is one worker thread, because the client has one core.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
    if after("durability").is_some() {
        let replica = Server::start();
        return runtime.block_on(durability::run(&server, &replica));
    }
    let tables = runtime.block_on(async {
        memory::run().await;
        redis::run(&server).await
    });
    if let Some(arguments) = after("chart") {
        let [path, ..] = arguments else { panic!("chart <file>") };
        std::fs::write(path, chart::svg(&tables)).expect("the file can be written");
    }
}

/// Returns the title of a table.
fn tasks_of(tasks: usize) -> String {
    match tasks {
        1 => "1 task".to_owned(),
        tasks => format!("{tasks} tasks"),
    }
}
