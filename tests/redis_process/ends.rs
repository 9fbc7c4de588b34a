//! The many ways in which a guard, a runtime and a process end. Each test uses another process, because a wrong end
//! would abort it.

use std::time::Duration;

use lock_tests::{PATIENCE, RedisServer, Worker, wait_until};

use crate::WORKER;

/// Makes a worker end its lock in the way `how`, while the lease is a minute. Returns when the worker has done so.
async fn end(server: &RedisServer, how: &str) -> Worker {
    let mut worker = Worker::start(WORKER, &["end", "--how", how, "--url", &server.url(), "--key", "k"]);
    worker.expect("HELD").await;
    let (value, left): (String, u64) = (server.get(&["GET", "k"]), server.get(&["PTTL", "k"]));
    assert!(value.contains(&format!(" pid={} ", worker.process().id())) && left > 50_000, "{value} {left}");
    worker.tell("go");
    worker.expect("ENDED").await;
    worker
}

/// Checks that the key is free long before its lease ends, although the process stays alive, and that the process works
/// normally.
async fn frees_the_key(how: &str) {
    let server = RedisServer::start();
    let worker = end(&server, how).await;
    wait_until(&format!("the key is gone: {how}"), PATIENCE, async || server.keys().is_empty()).await;
    worker.finish().await;
}

#[tokio::test]
async fn a_guard_dropped_outside_of_a_runtime() {
    frees_the_key("outside").await;
}

#[tokio::test]
async fn a_guard_dropped_by_a_panic_inside_of_a_runtime() {
    frees_the_key("unwinding").await;
}

#[tokio::test]
async fn a_guard_dropped_by_a_panic_outside_of_a_runtime() {
    frees_the_key("unwinding-outside").await;
}

#[tokio::test]
async fn a_guard_dropped_by_a_panic_of_a_task() {
    frees_the_key("unwinding-task").await;
}

#[tokio::test]
async fn a_guard_dropped_with_the_task_that_has_it_as_its_runtime_ends() {
    frees_the_key("with-its-runtime").await;
}

#[tokio::test]
async fn a_guard_dropped_after_its_runtime() {
    frees_the_key("after-its-runtime").await;
}

#[tokio::test]
async fn a_guard_dropped_as_the_last_statement_of_block_on() {
    frees_the_key("last-statement").await;
}

#[tokio::test]
async fn a_body_dropped_as_its_runtime_ends() {
    frees_the_key("body").await;
}

#[tokio::test]
async fn a_shutdown_before_the_exit_leaves_nothing() {
    for how in ["shutdown", "shutdown-while-held"] {
        let server = RedisServer::start();
        let worker = end(&server, how).await;
        // This worker exits at once.
        worker.finish().await;
        assert!(server.keys().is_empty(), "{how}: {:?}", server.keys());
    }
}

#[tokio::test]
async fn a_killed_process_frees_its_key_by_its_lease() {
    let server = RedisServer::start();
    let arguments = ["hold", "--url", &server.url(), "--key", "k", "--ttl", "500", "--effect", "/dev/null"];
    let mut worker = Worker::start(WORKER, &arguments);
    worker.expect("HELD").await;
    worker.process().kill9();
    let locks = lock_core::LockManager::connect(&server.url()).await.expect("the server takes locks");
    let request = locks.lock("k").wait(Duration::from_secs(5));
    request.acquire().await.expect("the lease runs out").release().await.expect("an answer");
}
