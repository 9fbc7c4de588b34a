//! Waiters of a fair lock that share no place with others of their process, although these stand directly before them.

use lock_core::{LockErrorKind, LockManager, LockRequest, strategy};
use lock_tests::{PATIENCE, RedisServer, wait_until};
use tokio::task::JoinSet;

use crate::store::queue;
use crate::support::{LONG, manager, within};

/// Lets three tasks wait one after another. Each must be queued by itself.
async fn three_places(server: &RedisServer, request: impl Fn() -> LockRequest) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for places in 1..=3 {
        let request = request();
        tasks.spawn(async move { request.run(async {}).await.expect("granted") });
        wait_until("it has a place", PATIENCE, async || queue(server, "k") == (places, places)).await;
    }
    tasks
}

async fn refused(locks: &LockManager, limited: impl Fn(LockRequest) -> LockRequest) {
    let request = || limited(locks.fair("k").ttl(LONG));
    let error = within(PATIENCE, "an answer at once", request().acquire()).await.expect_err("three wait");
    assert_eq!((error.kind(), error.waiters()), (LockErrorKind::Overloaded, Some(3)), "{error}");
}

/// A limit of waiters counts each of them, in every process.
#[tokio::test]
async fn with_a_limit_of_waiters_each_has_a_place() {
    type Limited = fn(LockRequest) -> LockRequest;
    let by_strategy: Limited = |request| request.strategy(strategy::shed(strategy::wait(), 3));
    let by_option: Limited = |request| request.strategy(strategy::wait()).max_waiters(3);
    for limited in [by_option, by_strategy] {
        let server = RedisServer::start();
        let (one, two) = (manager(&server).await, manager(&server).await);
        let held = two.fair("k").ttl(LONG).acquire().await.expect("it is free");
        let tasks = three_places(&server, || limited(one.fair("k").ttl(LONG))).await;
        refused(&two, by_option).await;
        refused(&two, by_strategy).await;
        held.release().await.expect("an answer");
        within(PATIENCE, "all turns", tasks.join_all()).await;
    }
}

/// The store shows who leads, and a lead that is forced to end is that of one candidate.
#[tokio::test]
async fn candidates_of_one_process_have_a_grant_each() {
    let server = RedisServer::start();
    let (one, two) = (manager(&server).await, manager(&server).await);
    let candidate = |name: &'static str| one.leader("k").ttl(LONG).label(name);
    let mut ids = Vec::new();
    let mut before = candidate("a").campaign().await.expect("nobody leads");
    for name in ["b", "c"] {
        let next = candidate(name);
        let waits = tokio::spawn(async move { next.campaign().await });
        wait_until("it has a place", PATIENCE, async || queue(&server, "k") == (1, 1)).await;
        before.resign().await.expect("an answer");
        before = within(PATIENCE, "its turn", waits).await.expect("no panic").expect("it leads");
        let shown = two.leader("k").current().await.expect("an answer").expect("somebody leads");
        assert_eq!(shown.record.as_ref().and_then(|record| record.label()), Some(name));
        ids.push(shown.id);
    }
    assert_ne!(ids[0], ids[1]);
    before.resign().await.expect("an answer");
}
