//! A counter that only the lock protects.

use std::time::Duration;

use lock_core::LockManager;
use lock_tests::{Counter, Directory, RedisServer, Worker};

use crate::WORKER;
use crate::locked::increment;

const PROCESSES: u64 = 4;
const BY_EACH: u64 = 30;
const TASKS: u64 = 32;
const BY_TASK: u64 = 4;

/// Runs all processes and tasks at once. Returns the final value of the counter.
async fn count(url: Option<&str>) -> u64 {
    let directory = Directory::new();
    let counter = Counter::create(&directory.path().join("counter"));
    let file = counter.path().to_str().expect("a path of UTF-8");
    let by_each = BY_EACH.to_string();
    let start = |number| {
        let arguments = ["increment", "--file", file, "--count", &by_each];
        match url {
            None => Worker::start(WORKER, &[&arguments[..], &["--unlocked"]].concat()),
            Some(url) if number % 2 == 0 => {
                Worker::start(WORKER, &[&arguments[..], &["--url", url]].concat())
            }
            Some(url) => {
                let arguments = [&arguments[..], &["--installed"]].concat();
                Worker::start_with(WORKER, &arguments, &[("LOCK_URL", url)])
            }
        }
    };
    let workers: Vec<_> = (0..PROCESSES).map(start).collect();
    let locks = match url {
        Some(url) => Some(LockManager::connect(url).await.expect("the server takes locks")),
        None => None,
    };
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let (counter, locks) = (counter.clone(), locks.clone());
        tasks.spawn(async move {
            for _ in 0..BY_TASK {
                match &locks {
                    Some(locks) => increment(locks, &counter).await.expect("the lock is kept"),
                    None => counter.add_one(Duration::ZERO).await,
                }
            }
        });
    }
    tasks.join_all().await;
    for worker in workers {
        worker.finish().await;
    }
    counter.value()
}

const ALL: u64 = PROCESSES * BY_EACH + TASKS * BY_TASK;

#[tokio::test]
async fn tasks_and_processes_lose_no_update_under_a_lock() {
    let server = RedisServer::start();
    assert_eq!(count(Some(&server.url())).await, ALL);
    assert!(server.keys().is_empty());
}

/// This is the negative control: without the lock, the counter loses updates.
#[tokio::test]
async fn tasks_and_processes_lose_updates_without_one() {
    for _ in 0..10 {
        if count(None).await < ALL {
            return;
        }
    }
    panic!("no update was lost in ten runs: the counter proves nothing");
}
