//! One uncontended cycle, acquire and release, compared with the cheapest equivalent.
//!
//! ```sh
//! cargo bench -p lock-core --features redis --bench uncontended
//! cargo bench -p lock-core --features redis --bench uncontended -- durability
//! ```
//!
//! With `durability`, on a primary with a replica: `durability=replicas(1)` in the URL, compared with the same URL
//! without it.
//!
//! On memory, compared with a tokio `Mutex`. On Redis, compared with plain `SET key value NX PX ttl` and an `EVALSHA`
//! that compares and deletes, through the same driver in the same run; 1, 64 and 512 tasks, each on its own key. The
//! kinds take turns in short rounds, and each ratio compares values of one round.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

mod rig;

use std::sync::Arc;
use std::time::Duration;

use lock_core::LockManager;
use redis::aio::MultiplexedConnection;
use rig::{Server, row, throughput};
use tokio::sync::Mutex;

const ROUNDS: usize = 7;
const WINDOW: Duration = Duration::from_millis(600);

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

fn main() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if std::env::args().any(|argument| argument == "durability") {
        let replica = Server::start();
        return runtime.block_on(durability(&server, &replica));
    }
    runtime.block_on(async {
        memory().await;
        redis(&server).await;
    });
}

async fn memory() {
    println!("memory, own keys ({ROUNDS} rounds of {WINDOW:?}, medians; ratios are to the first row)");
    for tasks in [1, 64] {
        println!(" {tasks} tasks");
        let mutexes: Arc<Vec<_>> = Arc::new((0..tasks).map(|_| Mutex::new(())).collect());
        let locks = LockManager::in_memory();
        let (mut plain, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mutexes = Arc::clone(&mutexes);
            plain.push(
                throughput(tasks, WINDOW, move |task| {
                    let mutexes = Arc::clone(&mutexes);
                    async move {
                        drop(mutexes[task].lock().await);
                        tokio::task::consume_budget().await;
                    }
                })
                .await,
            );
            ours.push(throughput(tasks, WINDOW, cycle(locks.clone(), false)).await);
        }
        row("tokio Mutex", &plain, &plain);
        row("lock-core, memory", &ours, &plain);
    }
}

async fn redis(server: &Server) {
    println!("redis, own keys ({ROUNDS} rounds of {WINDOW:?}, medians; ratios are to the first row)");
    let locks = LockManager::connect(&server.url()).await.expect("connects");
    let mut connection = server.connection().await;
    let sha = load(&mut connection).await;
    for tasks in [1, 64, 512] {
        println!(" {tasks} tasks");
        let (mut plain, mut ours, mut fenced) = (Vec::new(), Vec::new(), Vec::new());
        let mut commands = 0.0;
        for _ in 0..ROUNDS {
            plain.push(throughput(tasks, WINDOW, raw(connection.clone(), Arc::clone(&sha))).await);
            let before = server.commands().await;
            let rate = throughput(tasks, WINDOW, cycle(locks.clone(), false)).await;
            #[allow(clippy::cast_precision_loss, reason = "a count of commands")]
            let sent = (server.commands().await - before) as f64;
            commands = sent / (rate * WINDOW.as_secs_f64());
            ours.push(rate);
            fenced.push(throughput(tasks, WINDOW, cycle(locks.clone(), true)).await);
        }
        row("SET NX PX + compare-and-delete", &plain, &plain);
        row("lock-core", &ours, &plain);
        row("lock-core, fencing(true)", &fenced, &plain);
        println!("  commands per cycle           {commands:>12.2}");
    }
}

/// Measures a lock that counts only once a replica has it. The replica runs on the core of its primary.
async fn durability(primary: &Server, replica: &Server) {
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
        println!(" {tasks} tasks");
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

async fn load(connection: &mut MultiplexedConnection) -> Arc<str> {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(COMPARE_AND_DELETE);
    let sha: String = command.query_async(connection).await.expect("loads");
    sha.into()
}

fn cycle(locks: LockManager, fencing: bool) -> impl Fn(usize) -> futures::Cycle + Clone + Send + 'static {
    move |task| {
        let request = locks.lock(format!("bench:{task}")).fencing(fencing);
        Box::pin(async move {
            let guard = request.acquire().await.expect("nobody else has it");
            guard.release().await.expect("the store answers");
            tokio::task::consume_budget().await;
        })
    }
}

fn raw(
    connection: MultiplexedConnection,
    sha: Arc<str>,
) -> impl Fn(usize) -> futures::Cycle + Clone + Send + 'static {
    move |task| {
        let (mut connection, sha) = (connection.clone(), Arc::clone(&sha));
        Box::pin(async move {
            let key = format!("raw:{task}");
            let owner = format!("{:032x}{:016x}", 0xfeed_u128, task);
            let mut set = redis::cmd("SET");
            set.arg(&key).arg(&owner).arg("NX").arg("PX").arg(10_000);
            let set: Option<String> = set.query_async(&mut connection).await.expect("the server answers");
            assert!(set.is_some(), "nobody else has it");
            let mut delete = redis::cmd("EVALSHA");
            delete.arg(&*sha).arg(1).arg(&key).arg(&owner);
            let deleted: i64 = delete.query_async(&mut connection).await.expect("the server answers");
            assert_eq!(deleted, 1);
            tokio::task::consume_budget().await;
        })
    }
}

mod futures {
    use std::future::Future;
    use std::pin::Pin;

    pub(super) type Cycle = Pin<Box<dyn Future<Output = ()> + Send>>;
}
