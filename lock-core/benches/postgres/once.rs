//! Measures keys that are used once: their rows in the tables during a load, and the time after the load until these
//! rows are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lock_core::LockManager;
use lock_core::backend::postgres::tokio_postgres::Client;
use tokio::task::JoinSet;

use crate::server::Server;

const TASKS: u64 = 32;
const LOAD: Duration = Duration::from_secs(60);
/// The interval at which the rows are counted.
const STEP: Duration = Duration::from_secs(10);
/// The limit of the time from the end of the load until all rows are gone.
const BAR: Duration = Duration::from_secs(60);

/// Acquires keys for a minute, each of them only once. One third of the requests ask for a fencing token, and one third
/// for a permit of a semaphore.
pub(crate) async fn load(server: &Server) {
    println!("keys that are used once, {TASKS} tasks");
    let locks = LockManager::connect(&server.url()).await.expect("the server takes locks");
    let client = server.connection().await;
    let (stop, cycles) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (locks, stop, cycles) = (locks.clone(), Arc::clone(&stop), Arc::clone(&cycles));
        tasks.spawn(async move {
            let mut number = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let key = format!("order:{task}:{number}");
                let request = match number % 3 {
                    0 => locks.lock(key),
                    1 => locks.lock(key).fencing(true),
                    _ => locks.semaphore(key, 2),
                };
                if let Ok(guard) = request.acquire().await {
                    let _ = guard.release().await;
                    cycles.fetch_add(1, Ordering::Relaxed);
                }
                number += 1;
            }
        });
    }
    let began = Instant::now();
    while began.elapsed() < LOAD {
        tokio::time::sleep(STEP).await;
        print(&client, began.elapsed(), cycles.load(Ordering::Relaxed)).await;
    }
    stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    let ended = Instant::now();
    while rows(&client).await.0 > 0 && ended.elapsed() < BAR * 5 {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let took = ended.elapsed();
    let verdict = if took <= BAR { "" } else { "  MISSED" };
    println!("  all is gone {:.1} s after the end{verdict}", took.as_secs_f64());
}

async fn print(client: &Client, elapsed: Duration, cycles: u64) {
    let (rows, bytes) = rows(client).await;
    println!(
        "  {:>4} s: {cycles:>8} cycles, {rows:>8} keys in the tables, {} MB",
        elapsed.as_secs(),
        bytes >> 20
    );
}

/// Returns the number of keys in the tables, and the size of the tables.
async fn rows(client: &Client) -> (i64, i64) {
    let sql = "SELECT (SELECT count(*) FROM lock_core.keys), pg_total_relation_size('lock_core.keys') + \
               pg_total_relation_size('lock_core.holders')";
    let row = client.query_one(sql, &[]).await.expect("an answer");
    (row.get(0), row.get(1))
}
