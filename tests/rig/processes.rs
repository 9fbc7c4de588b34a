//! Processes end with their owner, and the counter tells when nothing protects it.

use std::net::TcpStream;
use std::time::Duration;

use lock_tests::{Counter, Directory, PATIENCE, Worker, wait_until};

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

#[tokio::test]
async fn a_server_dies_with_the_process_that_started_it() {
    let mut worker = Worker::start(WORKER, &["serve"]);
    let port: u16 = worker.expect("PORT").await.parse().expect("a port");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    worker.process().kill9();
    wait_until("the server is gone", PATIENCE, async || TcpStream::connect(("127.0.0.1", port)).is_err())
        .await;
}

#[tokio::test]
async fn a_worker_ends_when_its_input_ends() {
    let mut worker = Worker::start(WORKER, &["serve"]);
    worker.expect("PORT").await;
    assert!(worker.finish().await.is_empty());
}

#[tokio::test]
async fn a_counter_without_a_lock_loses_updates_between_processes() {
    let directory = Directory::new();
    let counter = Counter::create(&directory.path().join("counter"));
    let file = counter.path().to_str().expect("a path of UTF-8");
    let start = || Worker::start(WORKER, &["increment", "--unlocked", "--file", file, "--count", "100"]);
    let (one, two) = (start(), start());
    one.finish().await;
    two.finish().await;
    assert!((100..200).contains(&counter.value()), "stands at {}", counter.value());
}

#[tokio::test]
async fn a_counter_without_a_lock_loses_updates_between_tasks() {
    let directory = Directory::new();
    let counter = Counter::create(&directory.path().join("counter"));
    let tasks = [(); 8].map(|()| {
        let counter = counter.clone();
        tokio::spawn(async move { counter.add_one(Duration::ZERO).await })
    });
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(counter.value(), 1, "every task read before one wrote");
}
