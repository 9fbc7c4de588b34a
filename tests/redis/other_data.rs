//! Keys with data of other programs: the key of a lock, and the keys of its queue.

use lock_core::backend::{Ask, Backend, Mode, Queue, Renewal};
use lock_core::{LockErrorKind, Released};
use lock_tests::{PATIENCE, RedisServer, wait_until};

use crate::store::Process;
use crate::support::{LONG, manager, ms, try_once};

/// Returns the memory of the server's Lua interpreter in bytes.
fn lua_memory(server: &RedisServer) -> u64 {
    server.info("used_memory_lua").parse().expect("a number")
}

#[tokio::test]
async fn a_long_text_at_a_locks_key_is_never_read_whole() {
    const LONG_TEXT: usize = 8 << 20;
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    server.command(&["SET", "k", &"x".repeat(LONG_TEXT)]);
    let check = |what: &str| {
        // A string that a script reads stays in the interpreter until the next garbage collection.
        assert!(lua_memory(&server) < LONG_TEXT as u64 / 2, "{what} reads all of it");
        server.command(&["SCRIPT", "FLUSH"]);
    };
    let sent = || server.info("total_net_output_bytes").parse::<u64>().expect("a number");
    let before = sent();
    for mode in [Mode::Exclusive, Mode::Shared] {
        let claim = process.claim("k", mode, Queue::Fifo);
        let _ = process.refused(&claim).await;
        check("a try");
        process.wait(&claim).await;
        check("an attempt that queues");
        process.waits(&claim).await;
        check("a heartbeat");
        assert!(matches!(process.renew(&claim, LONG).await, Renewal::NotOwned));
        check("a renewal");
        assert!(process.redis.fence(&claim).await.is_err());
        check("a fencing token");
        assert!(matches!(process.redis.downgrade(&claim).await, Renewal::NotOwned));
        check("a downgrade");
        assert_eq!(process.release(&claim).await, Released::Taken);
        check("a release");
        assert_eq!(process.redis.release(&claim, Some(LONG)).await.expect("an answer"), Released::Taken);
        check("a release that keeps the key");
    }
    assert!(sent() - before < LONG_TEXT as u64 / 2, "nobody is sent all of it");
    assert_eq!(server.get::<usize>(&["STRLEN", "k"]), LONG_TEXT);
}

#[tokio::test]
async fn an_empty_text_is_a_lock_of_somebody_else() {
    let server = RedisServer::start();
    let (process, locks) = (Process::of(&server).await, manager(&server).await);
    server.command(&["SET", "k", ""]);
    for mode in [Mode::Exclusive, Mode::Shared] {
        let claim = process.claim("k", mode, Queue::Fifo);
        process.refused(&claim).await;
        process.wait(&claim).await;
        process.waits(&claim).await;
        assert_eq!(process.release(&claim).await, Released::Taken);
    }
    let error = locks.all(["j", "k"]).wait(ms(500)).acquire().await.expect_err("one of them is held");
    assert_eq!(error.kind(), LockErrorKind::TimedOut, "{error}");
    wait_until("the other is given back", PATIENCE, async || server.keys() == ["k"]).await;
    assert_eq!(server.get::<String>(&["GET", "k"]), "");
}

#[tokio::test]
async fn a_queue_of_another_type_keeps_no_holder_from_its_release() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    for helper in ["{k}:q", "{k}:w"] {
        for fencing in [false, true] {
            for kind in ["lock", "read", "semaphore"] {
                let request = match kind {
                    "lock" => locks.lock("k"),
                    "read" => locks.read("k"),
                    _ => locks.semaphore("k", 2),
                };
                let guard = request.ttl(LONG).fencing(fencing).acquire().await.expect("it is free");
                server.command(&["RPUSH", helper, "other data"]);
                let answer = guard.release().await.expect("an answer");
                assert_eq!(answer, Released::Released, "{kind} {helper} {fencing}");
                assert_eq!(server.get::<u64>(&["EXISTS", "k"]), 0, "{kind} {helper} {fencing}");
                server.command(&["FLUSHALL"]);
            }
        }
    }
}

#[tokio::test]
async fn a_queue_of_another_type_leaves_no_lock_and_no_waiter_behind() {
    let server = RedisServer::start();
    let (process, locks) = (Process::of(&server).await, manager(&server).await);
    for helper in ["{k}:q", "{k}:w"] {
        server.command(&["RPUSH", helper, "other data"]);
        for mode in [Mode::Exclusive, Mode::Shared] {
            let holder = process.claim("k", mode, Queue::Fifo);
            process.take(&holder).await;
            let waiter = process.fifo("k");
            let error = process.redis.acquire(&waiter, Ask::Enqueue { room: None }).await;
            let error = error.expect_err("it cannot be queued");
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
            assert_eq!(process.release(&holder).await, Released::Released);
            assert_eq!(server.keys(), [helper], "{mode:?}");
        }
        try_once(&locks, "k").await.expect("it is free").release().await.expect("an answer");
        server.command(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_queue_of_another_type_is_listed_as_empty() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    for helper in ["{k}:q", "{k}:w"] {
        let _guard = try_once(&locks, "k").await.expect("it is free");
        let _other = try_once(&locks, "kk").await.expect("it is free");
        server.command(&["HSET", "{k}:w", "somebody", "1"]);
        server.command(&["DEL", helper]);
        server.command(&["RPUSH", helper, "other data"]);
        let found = locks.locks_matching("k").await.expect("a list").locks;
        let keys: Vec<_> = found.iter().map(|lock| (lock.key.as_str(), lock.waiters.len())).collect();
        assert_eq!(keys, [("k", 0), ("kk", 0)], "{helper}");
        server.command(&["FLUSHALL"]);
    }
}
