//! Processes end with their owner, and the counter loses updates if nothing protects it.

use std::net::TcpStream;
use std::time::Duration;

use lock_tests::{Counter, Directory, Fenced, PATIENCE, RedisServer, Worker, wait_until};

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
    let start = || Worker::start(WORKER, &["increment", "--unlocked", "--file", file, "--count", "1000"]);
    let (one, two) = (start(), start());
    one.finish().await;
    two.finish().await;
    // A process that pauses between its read and its write undoes all increments of the other process in between.
    assert!((1..2_000).contains(&counter.value()), "stands at {}", counter.value());
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

#[tokio::test]
async fn a_fenced_resource_refuses_what_is_smaller() {
    let server = RedisServer::start();
    let resource = Fenced::connect(&server.url()).await;
    // The token has more digits than Lua's own number conversion keeps.
    let token = 1_763_672_000_123_456;
    assert!(resource.write("a", token).await && resource.write("a", token).await);
    assert!(!resource.write("a", token - 1).await);
    assert!(resource.write("a", token + 1).await && !resource.write("a", token).await);
    assert!(resource.write("b", 1).await, "each for itself");
}

#[tokio::test]
async fn what_a_killed_worker_said_is_kept() {
    let mut worker = Worker::start(WORKER, &["serve"]);
    wait_until("it says its port", PATIENCE, async || worker.unread() == 1).await;
    worker.process().stop();
    assert!(matches!(&worker.kill9().await[..], [line] if line.starts_with("PORT ")));
}
