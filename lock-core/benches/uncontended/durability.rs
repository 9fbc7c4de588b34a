//! Measures a lock that is granted only after a replica has received it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::LockManager;
use redis::aio::MultiplexedConnection;

use crate::cycles::{cycle, load, raw};
use crate::rig::{Server, row, throughput};
use crate::{ROUNDS, WINDOW, tasks_of};

/// Measures plain commands, locks without `durability`, and locks with `durability=replicas(1)`. The replica runs on
/// the same core as its primary.
pub(crate) async fn run(primary: &Server, replica: &Server) {
    let (mut connection, mut other) = (primary.connection().await, replica.connection().await);
    set(&mut connection, "repl-diskless-sync-delay", "0").await;
    set(&mut connection, "min-replicas-to-write", "1").await;
    let mut follow = redis::cmd("REPLICAOF");
    follow.arg("127.0.0.1").arg(primary.port);
    follow.query_async::<()>(&mut other).await.expect("a replica");
    let (plain, durable) = (primary.url(), format!("{}?durability=replicas(1)", primary.url()));
    // The primary refuses writes until the replica is connected.
    while redis::cmd("SET").arg("there").arg(1).query_async::<()>(&mut connection).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let sha = load(&mut connection).await;
    let plain = LockManager::connect(&plain).await.expect("connects");
    let durable = LockManager::connect(&durable).await.expect("connects");
    println!(
        "a primary and a replica, own keys ({ROUNDS} rounds of {WINDOW:?}, medians; ratios are to the first row)"
    );
    for tasks in [1, 64, 512] {
        println!(" {}", tasks_of(tasks));
        let mut rates = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            rates[0].push(throughput(tasks, WINDOW, raw(connection.clone(), Arc::clone(&sha))).await);
            rates[1].push(throughput(tasks, WINDOW, cycle(plain.clone(), false)).await);
            rates[2].push(throughput(tasks, WINDOW, cycle(durable.clone(), false)).await);
        }
        row("SET NX PX + compare-and-delete", &rates[0], &rates[0]);
        row("lock-core", &rates[1], &rates[0]);
        row("lock-core, durability=replicas(1)", &rates[2], &rates[0]);
    }
}

async fn set(connection: &mut MultiplexedConnection, name: &str, value: &str) {
    let mut command = redis::cmd("CONFIG");
    command.arg("SET").arg(name).arg(value);
    command.query_async::<()>(connection).await.expect("a setting");
}
