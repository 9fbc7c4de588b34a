//! Several processes: the protection by the lock, and the delay after the death of one process.

use std::time::Duration;

use lock_core::strategy;
use lock_tests::{Counter, Directory, PostgresServer, Worker, monotonic};

use crate::WORKER;
use crate::support::{LONG, manager, ms};

const PROCESSES: u64 = 4;
const BY_EACH: u64 = 30;

/// Runs all processes at once. Returns the final value of the counter.
async fn count(url: Option<&str>) -> u64 {
    let directory = Directory::new();
    let counter = Counter::create(&directory.path().join("counter"));
    let file = counter.path().to_str().expect("a path of UTF-8");
    let by_each = BY_EACH.to_string();
    let start = |_| {
        let arguments = ["increment", "--file", file, "--count", &by_each];
        let how = url.map_or(vec!["--unlocked"], |url| vec!["--url", url]);
        Worker::start(WORKER, &[&arguments[..], &how].concat())
    };
    let workers: Vec<_> = (0..PROCESSES).map(start).collect();
    for worker in workers {
        worker.finish().await;
    }
    counter.value()
}

#[tokio::test]
async fn processes_lose_no_update_under_a_lock() {
    let server = PostgresServer::start();
    assert_eq!(count(Some(&server.url())).await, PROCESSES * BY_EACH);
    assert_eq!(server.sql("SELECT count(*) FROM lock_core.holders WHERE owner <> ''"), "0");
}

/// This is the negative control: without the lock, the counter loses updates.
#[tokio::test]
async fn processes_lose_updates_without_one() {
    for _ in 0..10 {
        if count(None).await < PROCESSES * BY_EACH {
            return;
        }
    }
    panic!("no update was lost in ten runs: the counter proves nothing");
}

fn holder(server: &PostgresServer, ttl: &str, effect: &str) -> Worker {
    Worker::start(WORKER, &["hold", "--url", &server.url(), "--key", "k", "--ttl", ttl, "--effect", effect])
}

#[tokio::test]
async fn a_holder_that_is_killed_costs_its_lease() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let mut worker = holder(&server, "3000", "/dev/null");
    worker.expect("HELD").await;
    let waiting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock("k").ttl(LONG).strategy(strategy::wait()).acquire().await }
    });
    tokio::time::sleep(ms(4_000)).await;
    assert!(!waiting.is_finished(), "its lease is renewed");
    worker.process().kill9();
    let killed = monotonic();
    let guard = waiting.await.expect("no panic").expect("the lease is over");
    let waited = monotonic() - killed;
    // The wait is the rest of the lease, and at most one more pause until the next heartbeat.
    assert!((ms(500)..ms(9_000)).contains(&waited), "{waited:?}");
    guard.release().await.expect("an answer");
}

#[tokio::test]
async fn a_holder_that_stood_still_does_nothing_more_when_it_goes_on() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let directory = Directory::new();
    // The body writes to this file in its next round, if the file exists.
    let effect = directory.path().join("effect");
    let mut worker = holder(&server, "300", effect.to_str().expect("a path of UTF-8"));
    worker.expect("HELD").await;
    worker.process().stop();
    let guard = locks.lock("k").wait(Duration::from_secs(5)).acquire().await.expect("the lease runs out");
    std::fs::write(&effect, "").expect("a file");
    worker.process().cont();
    let reason = worker.expect("LOST").await;
    assert!(reason.contains("Expired"), "{reason}");
    assert_eq!(std::fs::read_to_string(&effect).expect("a file"), "", "it worked on without its lock");
    worker.finish().await;
    guard.check().expect("the late one took nothing away");
    guard.release().await.expect("an answer");
}
