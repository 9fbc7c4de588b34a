//! The many ways in which a guard, a runtime and a process end. Each test uses another process, because a wrong end
//! would abort it.

use std::time::Duration;

use lock_tests::{PATIENCE, RedisServer, Worker, wait_until};

use crate::WORKER;

/// Lets a worker end its lock, held for a minute, in the way `how`. Returns when it has.
async fn end(server: &RedisServer, how: &str) -> Worker {
    let mut worker = Worker::start(WORKER, &["end", "--how", how, "--url", &server.url(), "--key", "k"]);
    worker.expect("HELD").await;
    let (value, left): (String, u64) = (server.get(&["GET", "k"]), server.get(&["PTTL", "k"]));
    assert!(value.contains(&format!(" pid={} ", worker.process().id())) && left > 50_000, "{value} {left}");
    worker.tell("go");
    worker.expect("ENDED").await;
    worker
}

/// Checks that the key is free long before its lease ends although the process lives on, and that the process is
/// unharmed.
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
        // This one exits at once.
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

#[tokio::test]
async fn a_forked_child_can_do_nothing_with_the_locks_of_its_parent() {
    const KEYS: [&str; 4] = ["used", "released", "dropped", "downgraded"];
    let server = RedisServer::start();
    let mut worker = Worker::start(WORKER, &["fork", "--url", &server.url()]);
    worker.expect("HELD").await;
    let values = || KEYS.map(|key| server.get::<String>(&["GET", key]));
    let (before, mut recorder) = (values(), server.record());
    worker.tell("go");
    for operation in [
        "check",
        "extend",
        "fencing_token",
        "run",
        "handle.check",
        "handle.fencing_token",
        "release",
        "downgrade",
        "acquire",
        "try_acquire",
        "inspect",
        "is_locked",
        "locks",
    ] {
        let outcome = worker.expect(&format!("CHILD {operation} ")).await;
        assert!(outcome.starts_with("InvalidRequest ") && outcome.contains("fork"), "{operation}: {outcome}");
    }
    assert_eq!(worker.expect("CHILD drop").await, "Ok");
    assert_eq!(worker.expect("CHILD shutdown ").await, "Ok");
    assert_eq!(worker.expect("CHILD own manager ").await, "Ok");
    assert!(worker.expect("CHILD own child ").await.contains("fork"));
    assert_eq!(worker.expect("CHILD own manager again ").await, "Ok");
    worker.expect("FORKED").await;
    let sent: Vec<_> = recorder.take().into_iter().filter(|sent| sent.name != "TIME").collect();
    assert!(sent.is_empty(), "{sent:?}");
    assert_eq!(values(), before, "the parent's locks stay");
    worker.tell("go");
    worker.expect("RELEASED").await;
    assert!(server.keys().iter().all(|key| key.ends_with("}:f")), "{:?}", server.keys());
    worker.finish().await;
}

#[tokio::test]
async fn the_copy_of_a_waiting_request_in_a_forked_child_gets_no_grant() {
    let mut worker = Worker::start(WORKER, &["fork-waiting"]);
    for key in ["plain", "fenced"] {
        assert_eq!(worker.expect(&format!("CHILD waits {key} ")).await, "Pending");
    }
    for key in ["plain", "fenced"] {
        // The drop of the copy of the guard handed nothing off.
        assert_eq!(worker.expect(&format!("CHILD dropped {key} ")).await, "Pending");
    }
    for key in ["plain", "fenced"] {
        let outcome = worker.expect(&format!("CHILD handed {key} ")).await;
        assert!(outcome.contains("fork"), "{key}: {outcome}");
    }
    for key in ["plain", "fenced"] {
        assert_eq!(worker.expect(&format!("CHILD parent {key} ")).await, "Ok");
    }
    worker.finish().await;
}
