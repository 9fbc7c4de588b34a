//! Runs the measurements and prints their tables.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use lock_core::LockManager;

use crate::etcd::Etcd;
use crate::rounds::{Kind, ROUNDS, Round, WINDOW, lock_round, print, round};
use crate::server::Server;
use crate::zookeeper::ZooKeeper;

const WAITING: usize = 32;

/// A baseline without the library, with the fewest writes that any lock needs.
pub(crate) trait Least: Send + Sync {
    /// Creates and deletes one node or entry for a task.
    fn cycle(&self, task: usize) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

pub(crate) async fn run(server: &Server, name: &str) {
    let mut least: Vec<(&str, Arc<dyn Least>)> = Vec::new();
    if name == "etcd" {
        least.push(("created and deleted", Arc::new(Etcd::connect(server.port, false).await)));
        least.push(("by transactions", Arc::new(Etcd::connect(server.port, true).await)));
    } else {
        least.push(("created and deleted", Arc::new(ZooKeeper::connect(server.port).await)));
    }
    let locks = LockManager::connect(&server.url).await.expect("the server takes locks");
    for tasks in [1, 64] {
        println!(
            "{name}, free keys, {tasks} tasks ({ROUNDS} rounds of {WINDOW:?}, medians; ratios are to the first row)"
        );
        let mut bases = vec![Vec::new(); least.len()];
        let (mut lock, mut fenced, mut fair) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for (rounds, (_, least)) in bases.iter_mut().zip(&least) {
                rounds.push(least_round(server, tasks, least).await);
            }
            lock.push(lock_round(|| server.cpu(), tasks, &locks, Kind::Lock, false).await);
            fenced.push(lock_round(|| server.cpu(), tasks, &locks, Kind::Fenced, false).await);
            fair.push(lock_round(|| server.cpu(), tasks, &locks, Kind::Fair, false).await);
        }
        for ((what, _), rounds) in least.iter().zip(&bases) {
            print(what, rounds, &bases[0]);
        }
        print("lock-core, lock", &lock, &bases[0]);
        print("lock-core, with a token", &fenced, &bases[0]);
        print("lock-core, fair", &fair, &bases[0]);
    }
    println!("{name}, one key, {WAITING} tasks");
    let (mut lock, mut fair) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        fair.push(lock_round(|| server.cpu(), WAITING, &locks, Kind::Fair, true).await);
        lock.push(lock_round(|| server.cpu(), WAITING, &locks, Kind::Lock, true).await);
    }
    print("lock-core, fair", &fair, &fair);
    print("lock-core, lock", &lock, &fair);
}

async fn least_round(server: &Server, tasks: usize, least: &Arc<dyn Least>) -> Round {
    let least = Arc::clone(least);
    let cycle = move |task: usize| {
        let least = Arc::clone(&least);
        async move { least.cycle(task).await }
    };
    round(|| server.cpu(), tasks, cycle).await
}
