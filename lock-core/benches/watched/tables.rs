//! What is measured, and the tables.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use lock_core::{LockManager, strategy};

use crate::etcd::Etcd;
use crate::rounds::{ROUNDS, Round, WINDOW, print, round};
use crate::server::Server;
use crate::zookeeper::ZooKeeper;

const WAITING: usize = 32;

/// The least that a lock can write, without the library.
pub(crate) trait Least: Send + Sync {
    /// Creates one node or entry for a task, and deletes it.
    fn cycle(&self, task: usize) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

#[derive(Clone, Copy)]
enum Kind {
    Lock,
    Fair,
    /// As `Fair`, with a place for each waiter, so that each hand-off goes through the server.
    Places,
}

pub(crate) async fn run(server: &Server, name: &str) {
    let least: Arc<dyn Least> = match name {
        "etcd" => Arc::new(Etcd::connect(server.port).await),
        _ => Arc::new(ZooKeeper::connect(server.port).await),
    };
    let locks = LockManager::connect(&server.url).await.expect("the server takes locks");
    for tasks in [1, 64] {
        println!(
            "{name}, free keys, {tasks} tasks ({ROUNDS} rounds of {WINDOW:?}, medians; ratios are to the first row)"
        );
        let (mut base, mut lock, mut fair) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            base.push(least_round(server, tasks, &least).await);
            lock.push(lock_round(server, tasks, &locks, Kind::Lock, false).await);
            fair.push(lock_round(server, tasks, &locks, Kind::Fair, false).await);
        }
        print("created and deleted", &base, &base);
        print("lock-core, lock", &lock, &base);
        print("lock-core, fair", &fair, &base);
    }
    println!("{name}, one key, {WAITING} tasks");
    let (mut lock, mut fair, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        places.push(lock_round(server, WAITING, &locks, Kind::Places, true).await);
        fair.push(lock_round(server, WAITING, &locks, Kind::Fair, true).await);
        lock.push(lock_round(server, WAITING, &locks, Kind::Lock, true).await);
    }
    print("lock-core, fair, a place each", &places, &places);
    print("lock-core, fair", &fair, &places);
    print("lock-core, lock", &lock, &places);
}

async fn least_round(server: &Server, tasks: usize, least: &Arc<dyn Least>) -> Round {
    let least = Arc::clone(least);
    let cycle = move |task: usize| {
        let least = Arc::clone(&least);
        async move { least.cycle(task).await }
    };
    round(|| server.cpu(), tasks, cycle).await
}

async fn lock_round(server: &Server, tasks: usize, locks: &LockManager, kind: Kind, hot: bool) -> Round {
    let locks = locks.clone();
    let cycle = move |task: usize| {
        let key = if hot { "hot".to_owned() } else { format!("free:{task}") };
        let request = match kind {
            Kind::Lock => locks.lock(format!("lock-{key}")),
            Kind::Fair => locks.fair(format!("fair-{key}")),
            Kind::Places => locks.fair(format!("places-{key}")).max_waiters(1_000),
        };
        async move {
            let guard = request.strategy(strategy::wait()).acquire().await.expect("it waits for ever");
            guard.release().await.expect("an answer");
        }
    };
    round(|| server.cpu(), tasks, cycle).await
}
