//! Measures a free key on Redis, compared with three ways to send the same two commands without a library.

use std::sync::Arc;

use lock_core::LockManager;

use crate::cycles::{Cycle, cycle, load, raw};
use crate::rig::{Round, Sends, Server, round, rounds};
use crate::{ROUNDS, WINDOW, tasks_of};

const TASKS: [usize; 3] = [1, 64, 512];

/// One measured kind: its name, and the cycle of a task.
struct Kind {
    name: &'static str,
    cycle: Arc<dyn Fn(usize) -> Cycle + Send + Sync>,
}

pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) rounds: Vec<Round>,
}

/// Measures every kind with each number of tasks, prints the tables, and returns them.
pub(crate) async fn run(server: &Server) -> Vec<(usize, Vec<Measured>)> {
    println!("redis, own keys ({ROUNDS} rounds of {WINDOW:?}, medians; ratios are to the first row)");
    let kinds = kinds(server).await;
    let mut tables = Vec::new();
    for tasks in TASKS {
        println!(" {}", tasks_of(tasks));
        let table = table(server, &kinds, tasks).await;
        for measured in &table {
            rounds(measured.name, &measured.rounds, &table[0].rounds);
        }
        tables.push((tasks, table));
    }
    tables
}

async fn kinds(server: &Server) -> Vec<Kind> {
    let locks = LockManager::connect(&server.url()).await.expect("connects");
    let sha = load(&mut server.connection().await).await;
    let mut kinds = Vec::new();
    for (name, sends) in [
        ("raw, gathered writes", Sends::Gathered),
        ("raw, Nagle", Sends::Nagle),
        ("raw, TCP_NODELAY", Sends::EachAlone),
    ] {
        let cycle = raw(server.connection_over(sends).await, Arc::clone(&sha));
        kinds.push(Kind { name, cycle: Arc::new(cycle) });
    }
    kinds.push(Kind { name: "lock-core", cycle: Arc::new(cycle(locks.clone(), false)) });
    kinds.push(Kind { name: "lock-core, fencing(true)", cycle: Arc::new(cycle(locks, true)) });
    kinds
}

/// Measures the kinds in turns, so that a ratio compares rounds that ran one after the other.
async fn table(server: &Server, kinds: &[Kind], tasks: usize) -> Vec<Measured> {
    let mut table: Vec<_> =
        kinds.iter().map(|kind| Measured { name: kind.name, rounds: Vec::new() }).collect();
    for _ in 0..ROUNDS {
        for (kind, measured) in kinds.iter().zip(&mut table) {
            let cycle = Arc::clone(&kind.cycle);
            measured.rounds.push(round(tasks, WINDOW, Some(server), move |task| cycle(task)).await);
        }
    }
    table
}
