//! Tests of the library on a quorum, as a service uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{LockErrorKind, LockManager, LossReason, Release, strategy};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::node::{Health, Node, Weather};
use super::{millis, nodes, quorum};

const TTL: Duration = Duration::from_secs(3);

fn manager(nodes: &[Node]) -> LockManager {
    LockManager::builder(quorum(nodes)).ttl(TTL).build().expect("a quorum can do that")
}

/// Nodes go down and return one after another, as in an upgrade. The last nodes return without their data.
#[tokio::test(start_paused = true)]
async fn a_lock_is_kept_while_nodes_are_restarted_in_turn() {
    let nodes = nodes::<3>();
    let (here, there) = (manager(&nodes), manager(&nodes));
    let guard = here.lock("order:42").acquire().await.expect("it is free");
    for round in 0..12 {
        let node = &nodes[round % 3];
        node.is([Health::Down, Health::Stuck, Health::Mute][round / 3 % 3]);
        tokio::time::sleep(TTL / 2).await;
        assert!(guard.is_held(), "round {round}");
        assert!(there.lock("order:42").try_acquire().await.expect("an answer").is_none(), "round {round}");
        if round >= 9 {
            node.forget();
        }
        node.is(Health::Well);
        // In this time the lock is renewed at least twice, so the node has the lock again before the next node goes
        // down.
        tokio::time::sleep(TTL).await;
    }
    guard.release().await.expect("an answer");
    assert!(there.lock("order:42").try_acquire().await.expect("an answer").is_some());
}

#[tokio::test(start_paused = true)]
async fn the_holder_is_told_before_another_can_have_the_lock() {
    let nodes = nodes::<3>();
    let (here, there) = (manager(&nodes), manager(&nodes));
    let guard = here.lock("order:42").acquire().await.expect("it is free");
    let start = Instant::now();
    nodes[0].is(Health::Stuck);
    nodes[1].is(Health::Down);
    let waiting = there.lock("order:42").strategy(strategy::wait());
    let next = tokio::spawn(async move { waiting.acquire().await.map(|guard| (guard, Instant::now())) });
    assert_eq!(guard.lost().await, LossReason::Expired);
    let told = start.elapsed();
    assert!(told < TTL && told > TTL - millis(50), "{told:?}");
    nodes.iter().for_each(|node| node.is(Health::Well));
    let (_next, since) = next.await.expect("no panic").expect("it waits through an outage");
    assert!(since.duration_since(start) > told);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_majority_forgot_is_lost_at_the_next_renewal() {
    let nodes = nodes::<3>();
    let locks = manager(&nodes);
    let guard = locks.lock("order:42").acquire().await.expect("it is free");
    tokio::time::sleep(millis(1)).await;
    nodes[..2].iter().for_each(Node::forget);
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Taken);
    assert!(start.elapsed() < TTL / 2);
}

#[tokio::test(start_paused = true)]
async fn readers_and_writers() {
    let nodes = nodes::<3>();
    let (here, there) = (manager(&nodes), manager(&nodes));
    let first = here.read("report").acquire().await.expect("it is free");
    nodes[0].is(Health::Down);
    let second = there.read("report").acquire().await.expect("readers share");
    let busy =
        there.write("report").strategy(strategy::fail_fast()).acquire().await.expect_err("readers are there");
    assert_eq!(busy.kind(), LockErrorKind::Contended);
    first.release().await.expect("an answer");
    let writer = there.write("report").strategy(strategy::retry().within(TTL * 2));
    let writer = tokio::spawn(async move { writer.acquire().await });
    tokio::time::sleep(millis(500)).await;
    assert!(!writer.is_finished());
    second.release().await.expect("an answer");
    let writer = writer.await.expect("no panic").expect("the readers are gone");
    assert!(here.read("report").try_acquire().await.expect("an answer").is_none());
    let reader = writer.downgrade().await.expect("a majority is there");
    assert!(here.read("report").try_acquire().await.expect("an answer").is_some());
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn kinds_that_a_quorum_cannot_do_are_refused_before_any_request() {
    let nodes = nodes::<3>();
    let locks = manager(&nodes);
    for request in [locks.fair("k"), locks.semaphore("k", 3)] {
        let error = request.acquire().await.expect_err("it cannot");
        assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("quorum"), "{error}");
    }
    let short =
        locks.lock("k").ttl(millis(50)).acquire().await.expect_err("too short for nodes to answer in");
    assert_eq!(short.kind(), LockErrorKind::InvalidRequest, "{short}");
    assert_eq!(nodes[0].calls().tries, 0);
    let all = locks.all(["a", "b", "c"]).acquire().await.expect("several keys are possible");
    assert!(locks.lock("b").try_acquire().await.expect("an answer").is_none());
    all.release().await.expect("an answer");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_as_such_and_waited_through() {
    let nodes = nodes::<3>();
    let locks = manager(&nodes);
    nodes[..2].iter().for_each(|node| node.is(Health::Down));
    let error = locks.lock("k").strategy(strategy::fail_fast()).acquire().await.expect_err("one of three");
    assert_eq!(error.kind(), LockErrorKind::NoQuorum);
    assert!(error.is_temporary() && error.is_unavailable(), "{error}");
    let waiting = locks.lock("k").strategy(strategy::wait());
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    tokio::time::sleep(Duration::from_secs(20)).await;
    nodes[0].is(Health::Well);
    let start = Instant::now();
    let _guard = waiting.await.expect("no panic").expect("two of three");
    assert!(start.elapsed() < TTL);
}

/// Several processes use one key on a bad network. At most one holds the key at a time, and the tokens grow.
#[tokio::test(start_paused = true)]
async fn one_is_inside_at_a_time() {
    let nodes = nodes::<5>();
    nodes.iter().for_each(|node| node.weather(Weather { delay: millis(8), lost: 3 }));
    let (inside, last, done) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let locks = manager(&nodes);
        for _ in 0..3 {
            let (locks, inside, last) = (locks.clone(), Arc::clone(&inside), Arc::clone(&last));
            tasks.spawn(async move {
                for _ in 0..5 {
                    let request = locks.lock("order:42").fencing(true).strategy(strategy::wait());
                    let guard = request.acquire().await.expect("it waits");
                    let token = guard.fencing_token().await.expect("it came with the grant").get();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    let token = usize::try_from(token).expect("it fits");
                    assert!(last.swap(token, Ordering::SeqCst) < token);
                    tokio::time::sleep(millis(5)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                }
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic");
        done.fetch_add(1, Ordering::SeqCst);
    }
    assert_eq!(done.load(Ordering::SeqCst), 12);
}

/// Each node has its own connection, so a later request may overtake the release on some nodes. So the next acquisition
/// waits for the answer to the release.
#[tokio::test(start_paused = true)]
async fn a_process_is_never_refused_by_its_own_release() {
    let nodes = nodes::<3>();
    nodes.iter().for_each(|node| node.weather(Weather { delay: millis(8), lost: 0 }));
    let locks = manager(&nodes);
    for round in 0..100 {
        let request = locks.lock("order:42").strategy(strategy::fail_fast()).release(Release::Background);
        let outcome = request.run(async {}).await;
        outcome.unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}
