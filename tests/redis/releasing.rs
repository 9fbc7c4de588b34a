//! Bodies that end before their release is answered, on a real server.

use std::sync::Arc;

use lock_core::{LockManager, LockRequest, Release, ShutdownReport, strategy};
use lock_tests::{Flow, PATIENCE, Proxy, RedisServer, dropped_refuses_no_request, wait_until};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::support::{LONG, calls, connect, empty, manager, ms, within};

/// Returns a request that tries once, and whose release no caller waits for.
fn quick(locks: &LockManager, key: &str) -> LockRequest {
    locks.lock(key).ttl(LONG).strategy(strategy::fail_fast()).release(Release::Background)
}

/// Each cycle sends exactly two commands, so no request was refused and repeated.
#[tokio::test]
async fn one_task_meets_its_own_release_never() {
    const CYCLES: u64 = 1_000;
    let server = RedisServer::start();
    let locks = manager(&server).await;
    quick(&locks, "k").run(async {}).await.expect("it is free");
    empty(&server, PATIENCE).await;
    server.command(&["CONFIG", "RESETSTAT"]);
    for cycle in 0..CYCLES {
        let outcome = quick(&locks, "k").run(async {}).await;
        outcome.unwrap_or_else(|error| panic!("cycle {cycle}: {error}"));
    }
    empty(&server, PATIENCE).await;
    assert_eq!((calls(&server, "set"), calls(&server, "evalsha")), (CYCLES, CYCLES));
}

/// A few tasks, and then more than the driver accepts by default, on several threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_meet_their_own_releases_never() {
    const CYCLES: u64 = 20;
    for count in [20, 300] {
        let server = RedisServer::start();
        // The test is about the order. The long timeout keeps a busy machine from ending a call.
        let locks = connect(&format!("{}?timeout=10s", server.url())).await;
        let mut tasks = JoinSet::new();
        for task in 0..count {
            let locks = locks.clone();
            tasks.spawn(async move {
                let key = format!("k{task}");
                for cycle in 0..CYCLES {
                    let outcome = quick(&locks, &key).run(async {}).await;
                    outcome.unwrap_or_else(|error| panic!("task {task}, cycle {cycle}: {error}"));
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("nobody else wants the key");
        }
        empty(&server, PATIENCE).await;
        assert_eq!((calls(&server, "set"), calls(&server, "evalsha")), (count * CYCLES, count * CYCLES));
    }
}

#[tokio::test]
async fn a_body_ends_while_the_reply_to_its_release_is_on_its_way() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let locks = connect(&proxy.url()).await;
    let body = async { proxy.replies(Flow::Hold) };
    within(PATIENCE, "the end of the body", quick(&locks, "k").run(body)).await.expect("it is free");
    wait_until("the server has released", PATIENCE, async || server.keys().is_empty()).await;
    let next = tokio::spawn(quick(&locks, "k").acquire());
    tokio::time::sleep(ms(100)).await;
    assert!(server.keys().is_empty(), "it is sent after the answer");
    proxy.heal();
    next.await.expect("no panic").expect("after the answer").release().await.expect("an answer");
}

/// The connection is lost with the release on it, so the next request uses another connection.
#[tokio::test]
async fn a_cut_connection_makes_no_process_meet_its_own_release() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let locks = connect(&proxy.url()).await;
    for round in 0..20 {
        let key = format!("k{round}");
        let body = async { proxy.requests(Flow::Swallow) };
        quick(&locks, &key).run(body).await.expect("it is free");
        proxy.heal();
        proxy.cut();
        loop {
            match quick(&locks, &key).acquire().await {
                Ok(guard) => break drop(guard.release().await),
                // The request itself may be lost with the connection.
                Err(error) => assert!(!error.is_contended(), "round {round}: {error}"),
            }
        }
    }
    empty(&server, PATIENCE).await;
}

/// The server refuses the release, which is then sent again.
#[tokio::test]
async fn a_server_that_forgets_its_scripts_makes_no_process_meet_its_own_release() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    for round in 0..50 {
        quick(&locks, "k").run(async {}).await.expect("it is free");
        let body = async { server.command(&["SCRIPT", "FLUSH"]) };
        quick(&locks, "k").run(body).await.expect("it is free");
        let guard = quick(&locks, "k").acquire().await;
        let guard = guard.unwrap_or_else(|error| panic!("round {round}: {error}"));
        guard.release().await.expect("an answer");
    }
}

/// Each runtime has its own connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_runtime_waits_for_the_answer() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let locks = connect(&proxy.url()).await;
    let other = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let on_other = async || other.spawn(quick(&locks, "k").acquire()).await.expect("no panic");
    on_other().await.expect("it connects").release().await.expect("an answer");
    for round in 0..50 {
        quick(&locks, "k").run(async {}).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        let guard = on_other().await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        guard.release().await.expect("an answer");
    }
    let body = async { proxy.replies(Flow::Hold) };
    quick(&locks, "k").run(body).await.expect("it is free");
    wait_until("the server has released", PATIENCE, async || server.keys().is_empty()).await;
    let next = other.spawn(quick(&locks, "k").acquire());
    tokio::time::sleep(ms(100)).await;
    assert!(server.keys().is_empty(), "it is sent after the answer");
    proxy.heal();
    next.await.expect("no panic").expect("after the answer").release().await.expect("an answer");
    other.shutdown_background();
}

#[tokio::test]
async fn several_keys_and_every_kind_keep_the_order() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let fast =
        |request: LockRequest| request.ttl(LONG).strategy(strategy::fail_fast()).release(Release::Background);
    for round in 0..50 {
        for request in [
            fast(locks.all(["a", "b", "c"])),
            fast(locks.lock("b")),
            fast(locks.fair("c")),
            fast(locks.lock("a")).fencing(true),
            fast(locks.write("w")),
            fast(locks.read("w")),
            fast(locks.write("w")),
            fast(locks.semaphore("s", 1)),
            fast(locks.semaphore("s", 1)),
        ] {
            let what = format!("round {round}: {request:?}");
            request.run(async {}).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
}

/// Tokens grow from one holder to the next, even while the release of the last holder is in flight.
#[tokio::test]
async fn tokens_grow_behind_a_release() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let mut last = 0;
    for round in 0..200 {
        let request = quick(&locks, "k").fencing(round % 3 == 0);
        let token = request.run_with(|lock| async move { lock.fencing_token().await }).await;
        let token = token.expect("it is free").expect("an answer").get();
        assert!(token > last, "round {round}: {token} after {last}");
        last = token;
    }
}

#[tokio::test]
async fn a_shutdown_waits_for_the_answers() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let locks = connect(&proxy.url()).await;
    let body = async { proxy.requests(Flow::Hold) };
    quick(&locks, "k").run(body).await.expect("it is free");
    let locks = Arc::new(locks);
    let ending = tokio::spawn({
        let locks = Arc::clone(&locks);
        async move { locks.shutdown(PATIENCE).await }
    });
    tokio::time::sleep(ms(100)).await;
    assert!(!ending.is_finished() && server.keys() == ["k"]);
    proxy.heal();
    let report = within(PATIENCE, "ending", ending).await.expect("no panic");
    assert_eq!(report, ShutdownReport::default());
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn what_is_dropped_does_not_refuse_its_own_process() {
    let server = RedisServer::start();
    dropped_refuses_no_request(&manager(&server).await, LONG).await;
}
