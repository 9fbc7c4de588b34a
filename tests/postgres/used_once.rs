//! Keys with different names that are each used once. Their rows are removed as fast as they are created.

use std::time::Duration;

use lock_tests::{PostgresServer, wait_until};
use tokio::task::JoinSet;

use crate::support::{LONG, connect, cycle, manager, try_once};

/// Inserts the rows of exclusive locks whose holders have died.
fn leave_behind(server: &PostgresServer, keys: u64) {
    server.sql(&format!(
        "INSERT INTO lock_core.keys (key) SELECT 'order:' || n FROM generate_series(1, {keys}) n; \
         INSERT INTO lock_core.holders (key, owner, mode, record, expires_at) SELECT 'order:' || n, 'o', 'x', 'host=h pid=1', \
         '-infinity' FROM generate_series(1, {keys}) n"
    ));
}

/// A sweep of a thousand keys a second would take longer than the test allows. The runtime has two threads, because one
/// of them waits for the statements of the test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_is_as_fast_as_there_is_much_to_delete() {
    const KEYS: u64 = 300_000;
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let held = try_once(&locks, "order:held").await.expect("it is free");
    leave_behind(&server, KEYS);
    let left = "SELECT count(*) FROM lock_core.keys";
    wait_until("all is gone", Duration::from_secs(290), async || server.sql(left) == "1").await;
    held.release().await.expect("an answer");
}

/// When two processes sweep at once, one continues, and the other does nothing.
#[tokio::test]
async fn one_sweeps_at_a_time() {
    let server = PostgresServer::start();
    drop(connect(&server.url()).await);
    leave_behind(&server, 1_000);
    server.sql("UPDATE lock_core.floor SET swept_at = '-infinity', swept_to = ''");
    let sweep =
        |to: &str| server.sql(&format!("SELECT came_to, looked, deleted FROM lock_core.sweep(400, {to})"));
    let first = sweep("NULL");
    let (to, counts) = first.split_once('|').expect("three columns");
    assert_eq!(counts, "400|400");
    assert_eq!(sweep("NULL"), "", "another begins no sweep");
    assert_eq!(sweep("'order:1'"), "", "another came to another key");
    let second = sweep(&format!("'{to}'"));
    let (to, counts) = second.split_once('|').expect("three columns");
    assert_eq!(counts, "400|400");
    assert_eq!(sweep(&format!("'{to}'")), "|200|200", "the end");
    assert_eq!(sweep("NULL"), "", "not again at once");
}

#[tokio::test]
async fn what_is_held_is_listed_among_a_hundred_thousand_keys_that_are_over() {
    let server = PostgresServer::start();
    let locks = connect(&format!("{}&timeout=15s", server.hasty_url())).await;
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    leave_behind(&server, 100_000);
    let held = try_once(&locks, "order:5").await.expect("it is free");
    let other = locks.semaphore("z", 3).ttl(LONG).acquire().await.expect("it is free");
    let listed = locks.locks().await.expect("a list");
    let names: Vec<_> = listed.locks.iter().map(|lock| lock.key.as_str()).collect();
    assert_eq!(names, ["order:5", "z"]);
    held.release().await.expect("an answer");
    other.release().await.expect("an answer");
}

/// Runs a load of such keys, of two kinds. Nothing remains of it afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_load() {
    const TASKS: usize = 16;
    const CYCLES: usize = 200;
    let server = PostgresServer::start();
    let locks = connect(&format!("{}&timeout=15s", server.hasty_url())).await;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let locks = locks.clone();
        tasks.spawn(async move {
            for number in 0..CYCLES {
                cycle(&locks, &format!("order:{task}:{number}")).await;
                let fenced = locks.lock(format!("bill:{task}:{number}")).fencing(true).ttl(LONG);
                fenced.acquire().await.expect("it is free").release().await.expect("an answer");
            }
        });
    }
    tasks.join_all().await;
    let left = "SELECT (SELECT count(*) FROM lock_core.keys) + (SELECT count(*) FROM lock_core.holders)";
    wait_until("all is gone", Duration::from_secs(180), async || server.sql(left) == "0").await;
}
