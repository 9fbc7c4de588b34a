//! Measures a crowd of waiters of one process for one key, on every store and with round trips of 0, 2 and 10 ms.
//!
//! ```sh
//! cargo bench -p lock-core --features redis,postgres,etcd,zookeeper --bench crowd                      # about 25 minutes
//! cargo bench -p lock-core --features redis,postgres,etcd,zookeeper --bench crowd -- postgres 600 read # some rows
//! ```
//!
//! Each row has its own server, which serves 300 waiters before the measurement. A row passes if all waiters are served
//! within twice the ideal time. The ideal time is the time of the holds and of the round trips between them. The bench
//! ends with an error if a row fails. *displaced* is the average number of places by which a waiter was served earlier
//! or later than it arrived.
//!
//! There is one round trip between two holders, for the release and its notification. ZooKeeper needs two round trips,
//! because its notification says that a node is gone, but not which nodes remain.
//!
//! | kind | waiters | ideal time |
//! | --- | --- | --- |
//! | `semaphore` | two permits, each hold takes 20 ms | half of the waiters, one after another |
//! | `fair` | each hold takes 2 ms | all waiters, one after another |
//! | `read` | all behind a writer, which holds for 3 s | the hold of the writer |
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]
#![allow(clippy::duplicate_mod, reason = "the server of Postgres and the rig both measure the CPU")]

#[path = "../rig/cpu.rs"]
#[allow(dead_code, reason = "each bench uses its part")]
mod cpu;
mod line;
#[path = "../postgres/server.rs"]
#[allow(dead_code, reason = "each bench uses its part")]
mod postgres;
#[path = "../rig/mod.rs"]
mod rig;
mod row;
#[path = "../watched/server.rs"]
#[allow(dead_code, reason = "each bench uses its part")]
mod watched;

use std::process::ExitCode;
use std::time::Duration;

use line::Line;
use row::{KINDS, Row};

const STORES: [&str; 5] = ["memory", "redis", "postgres", "etcd", "zookeeper"];
const WAITERS: [usize; 4] = [60, 300, 600, 1_500];
const ROUND_TRIPS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(2), Duration::from_millis(10)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let numbers: Vec<usize> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    let is_known = |word: &String| {
        let word = word.as_str();
        STORES.contains(&word) || KINDS.contains(&word) || word.parse::<usize>().is_ok()
    };
    let unknown = arguments.iter().find(|word| !is_known(word));
    assert!(unknown.is_none(), "unknown word {unknown:?}: expected a store, a kind or a number of waiters");
    // If the arguments name no store or no kind, all of them are measured.
    let wanted = |name: &str, all: &[&str]| {
        !arguments.iter().any(|word| all.contains(&word.as_str()))
            || arguments.iter().any(|word| word == name)
    };
    let mut missed = 0;
    for store in STORES.into_iter().filter(|store| wanted(store, &STORES)) {
        println!("{store}\n  {:<10} {:>7} {:>10}", "kind", "waiters", "round trip");
        let trips = if store == "zookeeper" { 2 } else { 1 };
        for round_trip in ROUND_TRIPS {
            if store == "memory" && !round_trip.is_zero() {
                continue;
            }
            for kind in KINDS.into_iter().filter(|kind| wanted(kind, &KINDS)) {
                for waiters in WAITERS.into_iter().filter(|n| numbers.is_empty() || numbers.contains(n)) {
                    missed += usize::from(!measure(store, Row { kind, waiters, round_trip, trips }));
                }
            }
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measures one row on its own server. Returns whether the row passes.
fn measure(store: &str, row: Row) -> bool {
    let server = Store::start(store);
    let line = server.port().map(|port| Line::to(port, row.round_trip / 2));
    let url = match (&line, server.port()) {
        (Some(line), Some(port)) => server.url().replace(&format!(":{port}"), &format!(":{}", line.port)),
        _ => server.url(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(row.measure(&url))
}

/// A server, which stops when this value is dropped.
enum Store {
    Memory,
    Redis(rig::Server),
    Postgres(postgres::Server),
    Watched(watched::Server),
}

impl Store {
    fn start(store: &str) -> Self {
        match store {
            "redis" => Self::Redis(rig::Server::start()),
            "postgres" => Self::Postgres(postgres::Server::start()),
            "etcd" => Self::Watched(watched::Server::etcd()),
            "zookeeper" => Self::Watched(watched::Server::zookeeper()),
            _ => Self::Memory,
        }
    }

    fn port(&self) -> Option<u16> {
        match self {
            Self::Memory => None,
            Self::Redis(server) => Some(server.port),
            Self::Postgres(server) => Some(server.port()),
            Self::Watched(server) => Some(server.port),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Memory => "memory://".to_owned(),
            Self::Redis(server) => server.url(),
            Self::Postgres(server) => server.url(),
            Self::Watched(server) => server.url.clone(),
        }
    }
}
