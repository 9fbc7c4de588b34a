//! A latch that several processes use. One of them is killed while it waits.

use std::time::Duration;

use lock_core::LockManager;
use lock_tests::{PATIENCE, RedisServer, Worker, wait_until};

use crate::WORKER;

const TTL: Duration = Duration::from_secs(3);

async fn worker(server: &RedisServer) -> Worker {
    let arguments = ["latch", "--url", &server.url(), "--key", "start", "--ttl", "3000"];
    let mut worker = Worker::start(WORKER, &arguments);
    worker.expect("READY").await;
    worker
}

#[tokio::test]
async fn processes_count_down_and_one_that_is_killed_while_it_waits_holds_up_nobody() {
    let server = RedisServer::start();
    let locks = LockManager::connect(&server.url()).await.expect("the server takes locks");
    let latch = locks.latch("start").ttl(TTL);
    // The processes start before the latch is set, because no process keeps the latch alive meanwhile.
    let [mut victim, mut waits, mut counts] =
        [worker(&server).await, worker(&server).await, worker(&server).await];
    latch.set(2).await.expect("an answer");
    for worker in [&mut victim, &mut waits] {
        worker.tell("wait");
        worker.expect("WAITS").await;
    }
    counts.tell("count");
    assert_eq!(counts.expect("LEFT").await, "1");
    victim.kill9().await;
    // After two more leases, only the remaining waiter keeps the latch alive.
    let measure = locks.latch("measure").ttl(TTL * 2);
    measure.set(1).await.expect("an answer");
    wait_until("two leases are over", PATIENCE, async || measure.count().await.expect("an answer").is_none())
        .await;
    assert_eq!((latch.count().await.expect("an answer"), waits.unread()), (Some(1), 0));
    counts.tell("count");
    assert_eq!(counts.expect("LEFT").await, "0");
    waits.expect("OPEN").await;
    assert_eq!(waits.finish().await, Vec::<String>::new());
    counts.finish().await;
}

#[tokio::test]
async fn a_latch_whose_only_waiter_is_killed_is_forgotten() {
    let server = RedisServer::start();
    let locks = LockManager::connect(&server.url()).await.expect("the server takes locks");
    let latch = locks.latch("start").ttl(TTL);
    let mut victim = worker(&server).await;
    latch.set(1).await.expect("an answer");
    victim.tell("wait");
    victim.expect("WAITS").await;
    victim.kill9().await;
    wait_until("it is forgotten", PATIENCE, async || latch.count().await.expect("an answer").is_none()).await;
    assert_eq!(server.keys(), Vec::<String>::new());
}
