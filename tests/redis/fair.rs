//! The kind `fair`, in which every waiter has its own place in the queue.

use lock_core::{LockErrorKind, LockManager, LockRequest, strategy};
use lock_tests::{PATIENCE, RedisServer, wait_until};
use tokio::task::JoinSet;

use crate::in_line::{fair, is_served_in_order, waiting};
use crate::support::{manager, within};

#[tokio::test]
async fn waiters_of_several_processes_are_served_in_order() {
    let server = RedisServer::start();
    let [one, two, three] = [manager(&server).await, manager(&server).await, manager(&server).await];
    is_served_in_order([&one, &two, &three]).await;
    wait_until("nothing but tokens is left", PATIENCE, async || {
        server.keys().iter().all(|key| key == "{k}:f")
    })
    .await;
}

async fn refused(locks: &LockManager, limited: impl Fn(LockRequest) -> LockRequest) {
    let error = within(PATIENCE, "an answer at once", limited(fair(locks)).acquire());
    let error = error.await.expect_err("three wait");
    assert_eq!((error.kind(), error.waiters()), (LockErrorKind::Overloaded, Some(3)), "{error}");
}

/// The limit of waiters counts each waiter in every process.
#[tokio::test]
async fn a_limit_counts_each_waiter() {
    type Limited = fn(LockRequest) -> LockRequest;
    let by_strategy: Limited = |request| request.strategy(strategy::shed(strategy::wait(), 3));
    let by_option: Limited = |request| request.max_waiters(3);
    for limited in [by_option, by_strategy] {
        let server = RedisServer::start();
        let (one, two) = (manager(&server).await, manager(&server).await);
        let held = fair(&two).acquire().await.expect("it is free");
        let mut tasks = JoinSet::new();
        for places in 1..=3 {
            let request = limited(fair(&one));
            tasks.spawn(async move { request.run(async {}).await.expect("granted") });
            waiting(&two, places).await;
        }
        refused(&two, by_option).await;
        refused(&two, by_strategy).await;
        held.release().await.expect("an answer");
        within(PATIENCE, "all turns", tasks.join_all()).await;
    }
}
