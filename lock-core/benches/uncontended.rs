//! One uncontended cycle, acquire and release, compared with the cheapest equivalent.
//!
//! ```sh
//! cargo bench -p lock-core --features redis --bench uncontended
//! cargo bench -p lock-core --features redis --bench uncontended -- durability
//! cargo bench -p lock-core --features redis --bench uncontended -- count memory 1 4000
//! ```
//!
//! With `durability`, on a primary with a replica: `durability=replicas(1)` in the URL, compared with the same URL
//! without it.
//!
//! With `count`, exactly so many cycles of one kind (`mutex`, `memory`, `raw`, `redis`) on one thread, and nothing else: for
//! a tool that counts instructions. The README says how.
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
use rig::{Round, Server, round, rounds, row, throughput};
use tokio::sync::Mutex;

const ROUNDS: usize = 7;
const WINDOW: Duration = Duration::from_millis(600);

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "count") {
        return count(&arguments[at + 1..]);
    }
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if arguments.iter().any(|argument| argument == "durability") {
        let replica = Server::start();
        return runtime.block_on(durability(&server, &replica));
    }
    runtime.block_on(async {
        memory().await;
        redis(&server).await;
    });
}

/// Runs a number of cycles, spread over tasks with keys of their own.
fn count(arguments: &[String]) {
    let [kind, tasks, cycles, ..] = arguments else { panic!("count <kind> <tasks> <cycles>") };
    let (tasks, cycles): (usize, usize) =
        (tasks.parse().expect("a number of tasks"), cycles.parse().expect("a number of cycles"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let each = cycles / tasks;
        match kind.as_str() {
            "mutex" => {
                let mutexes = mutexes(tasks);
                repeat(tasks, each, move |task| lock(Arc::clone(&mutexes), task)).await;
            }
            "memory" => repeat(tasks, each, cycle(LockManager::in_memory(), false)).await,
            "redis" => {
                let server = Server::start();
                let locks = LockManager::connect(&server.url()).await.expect("connects");
                repeat(tasks, each, cycle(locks, false)).await;
            }
            "raw" => {
                let server = Server::start();
                let mut connection = server.connection().await;
                let sha = load(&mut connection).await;
                repeat(tasks, each, raw(connection, sha)).await;
            }
            other => panic!("{other} is none of mutex, memory, redis, raw"),
        }
    });
}

async fn repeat<F, Fut>(tasks: usize, times: usize, cycle: F)
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let task = |task| {
        let cycle = cycle.clone();
        tokio::spawn(async move {
            for _ in 0..times {
                cycle(task).await;
            }
        })
    };
    for running in (0..tasks).map(task).collect::<Vec<_>>() {
        running.await.expect("a cycle does not panic");
    }
}

type Mutexes = Arc<Vec<Mutex<()>>>;

fn mutexes(tasks: usize) -> Mutexes {
    Arc::new((0..tasks).map(|_| Mutex::new(())).collect())
}

async fn lock(mutexes: Mutexes, task: usize) {
    drop(mutexes[task].lock().await);
    tokio::task::consume_budget().await;
}

async fn memory() {
    println!("memory, own keys ({ROUNDS} rounds of {WINDOW:?}, medians; ratios are to the first row)");
    for tasks in [1, 64] {
        println!(" {tasks} tasks");
        let (locks, mutexes) = (LockManager::in_memory(), mutexes(tasks));
        let (mut plain, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mutexes = Arc::clone(&mutexes);
            plain.push(round(tasks, WINDOW, move |task| lock(Arc::clone(&mutexes), task)).await);
            ours.push(round(tasks, WINDOW, cycle(locks.clone(), false)).await);
        }
        rounds("tokio Mutex", &plain, &plain);
        rounds("lock-core, memory", &ours, &plain);
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
            plain.push(round(tasks, WINDOW, raw(connection.clone(), Arc::clone(&sha))).await);
            let before = server.commands().await;
            let own: Round = round(tasks, WINDOW, cycle(locks.clone(), false)).await;
            #[allow(clippy::cast_precision_loss, reason = "a count of commands")]
            let sent = (server.commands().await - before) as f64;
            commands = sent / (own.rate * WINDOW.as_secs_f64());
            ours.push(own);
            fenced.push(round(tasks, WINDOW, cycle(locks.clone(), true)).await);
        }
        rounds("SET NX PX + compare-and-delete", &plain, &plain);
        rounds("lock-core", &ours, &plain);
        rounds("lock-core, fencing(true)", &fenced, &plain);
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
