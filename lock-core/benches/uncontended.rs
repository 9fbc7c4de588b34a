//! One uncontended cycle, acquire and release, against the cheapest thing that does the same.
//!
//! ```sh
//! cargo bench -p lock-core --features redis --bench uncontended
//! ```
//!
//! On memory: against a tokio `Mutex`. On Redis: against plain `SET key value NX PX ttl` and an `EVALSHA` that compares
//! and deletes, through the same driver in the same run; 1, 64 and 512 tasks, each on its own key. The kinds take turns
//! in short rounds, and the ratios are those of one round.
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
    let sha: String = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(COMPARE_AND_DELETE)
        .query_async(&mut connection)
        .await
        .expect("loads");
    let sha: Arc<str> = sha.into();
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
