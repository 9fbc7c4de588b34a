//! The order of arrival, where holders verify their lease. Such a grant goes back to the store each time, which gives the key to the
//! next of those who share its place.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use lock_core::backend::postgres::tokio_postgres::Client;
use lock_core::{LockGuard, LockRequest};
use lock_tests::{PATIENCE, PostgresServer, wait_until};
use tokio::task::JoinSet;

use crate::groups::{count_shared, placed};
use crate::in_line::fair;
use crate::support::{empty, manager, ms, within};
use crate::verify::application;

type Order = Arc<Mutex<Vec<usize>>>;

fn places(server: &PostgresServer) -> usize {
    server.sql("SELECT count(*) FROM lock_core.waiters").parse().expect("a number")
}

/// How a task ends its turn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// After the transaction that has verified the lease.
    Committed,
    /// Before: the transaction ends later.
    Open,
    /// Without a transaction.
    Unverified,
    /// The guard is dropped, and the release is left to the background.
    Dropped,
}

/// Waits for the key, verifies the lease, and releases.
async fn turn(request: LockRequest, mut client: Client, end: End, number: usize, order: Order) {
    let guard = request.acquire().await.expect("granted");
    // Nobody has it before the transaction of the one before has ended.
    order.lock().expect("no panic").push(number);
    if end == End::Unverified {
        guard.release().await.expect("an answer");
        return;
    }
    let mut transaction = client.transaction().await.expect("a transaction");
    guard.verify_in(&mut transaction).await.expect("the lease lives");
    if end == End::Open {
        guard.release().await.expect("an answer");
        tokio::time::sleep(ms(100)).await;
        assert_eq!(order.lock().expect("no panic").last(), Some(&number), "the transaction is open");
        return transaction.commit().await.expect("a commit");
    }
    transaction.commit().await.expect("a commit");
    if end != End::Dropped {
        guard.release().await.expect("an answer");
    }
}

/// Lets tasks of two processes line up, and returns in which order they had the key.
async fn order_of(end: impl Fn(usize) -> End) -> Vec<usize> {
    let server = PostgresServer::start();
    let (one, two) = (manager(&server).await, manager(&server).await);
    count_shared(&server);
    let mut waiters = Vec::new();
    for locks in [&one, &one, &one, &two, &two, &one, &one] {
        waiters.push((fair(locks), application(&server).await));
    }
    let held = fair(&two).acquire().await.expect("it is free");
    let (order, mut tasks) = (Order::default(), Vec::new());
    for (number, (request, client)) in waiters.into_iter().enumerate() {
        let before = placed(&server);
        tasks.push(tokio::spawn(turn(request, client, end(number), number, Arc::clone(&order))));
        wait_until("it has a place", PATIENCE, async || placed(&server) > before).await;
    }
    assert_eq!(places(&server), 3, "one for each time that the process changes");
    held.release().await.expect("an answer");
    for task in tasks {
        within(PATIENCE, "a turn", task).await.expect("no panic");
    }
    empty(&server, PATIENCE).await;
    order.lock().expect("no panic").clone()
}

/// The test asks the server by another program, which must not keep the waiters from their heartbeats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_verifies_costs_nobody_its_place() {
    use End::{Committed, Dropped, Open, Unverified};
    for ends in
        [&[Committed][..], &[Open], &[Dropped], &[Unverified, Committed], &[Open, Dropped, Unverified]]
    {
        let order = order_of(|number| ends[number % ends.len()]).await;
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6], "{ends:?}");
    }
}

/// The next of those who share the place gives up while the release is under way, and when it has the key or the first place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_gives_up_leaves_the_place_to_the_next() {
    for is_open in [true, false] {
        let server = PostgresServer::start();
        let mut client = application(&server).await;
        let (one, two) = (manager(&server).await, manager(&server).await);
        count_shared(&server);
        let guard = fair(&one).acquire().await.expect("it is free");
        let mut tasks = Vec::new();
        for locks in [&one, &one, &one, &two] {
            let before = placed(&server);
            tasks.push(tokio::spawn(fair(locks).acquire()));
            wait_until("it has a place", PATIENCE, async || placed(&server) > before).await;
        }
        let mut transaction = client.transaction().await.expect("a transaction");
        guard.verify_in(&mut transaction).await.expect("the lease lives");
        let open = if is_open {
            Some(transaction)
        } else {
            transaction.commit().await.map(|()| None).expect("a commit")
        };
        let mut tasks = tasks.into_iter();
        let (gone, next, last, other) = (tasks.next(), tasks.next(), tasks.next(), tasks.next());
        guard.release().await.expect("an answer");
        gone.expect("a task").abort();
        if let Some(transaction) = open {
            tokio::time::sleep(ms(200)).await;
            transaction.commit().await.expect("a commit");
        }
        for task in [next, last] {
            let guard = within(PATIENCE, "its turn", task.expect("a task"))
                .await
                .expect("no panic")
                .expect("granted");
            if is_open {
                assert!(!other.as_ref().expect("a task").is_finished(), "it stands behind them");
            }
            guard.release().await.expect("an answer");
        }
        let guard =
            within(PATIENCE, "its turn", other.expect("a task")).await.expect("no panic").expect("granted");
        guard.release().await.expect("an answer");
        empty(&server, PATIENCE).await;
    }
}

/// A check that was made of a grant is none of the next one, which has another owner.
#[tokio::test]
async fn an_old_check_fails_after_the_successor_has_the_key() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    count_shared(&server);
    let guard = fair(&locks).acquire().await.expect("it is free");
    let next = tokio::spawn(fair(&locks).acquire());
    wait_until("it has a place", PATIENCE, async || placed(&server) > 0).await;
    let check = guard.lease_check().expect("it is in a database");
    let run = |check: &lock_core::backend::LeaseCheck| {
        let call = check.sql().replace("$1", "ARRAY['k']").replace("$2", &format!("'{}'", check.owner()));
        server.try_sql(&call).is_ok()
    };
    assert!(run(&check));
    guard.release().await.expect("an answer");
    let next = within(PATIENCE, "its turn", next).await.expect("no panic").expect("granted");
    assert!(!run(&check) && run(&next.lease_check().expect("a check")));
    next.release().await.expect("an answer");
}

/// The future that releases is kept and not polled. Whoever waits in its process has a place in the store.
#[tokio::test]
async fn a_release_that_nobody_finishes_keeps_nobody_waiting() {
    let server = PostgresServer::start();
    let mut client = application(&server).await;
    let (one, two) = (manager(&server).await, manager(&server).await);
    count_shared(&server);
    let held = fair(&two).acquire().await.expect("it is free");
    let mut tasks = JoinSet::new();
    for number in 1..=2 {
        tasks.spawn(fair(&one).acquire());
        wait_until("it has a place", PATIENCE, async || placed(&server) == number).await;
    }
    held.release().await.expect("an answer");
    let next = async |tasks: &mut JoinSet<lock_core::Result<LockGuard>>| {
        within(PATIENCE, "a turn", tasks.join_next())
            .await
            .expect("two wait")
            .expect("no panic")
            .expect("granted")
    };
    let guard: LockGuard = next(&mut tasks).await;
    let mut transaction = client.transaction().await.expect("a transaction");
    guard.verify_in(&mut transaction).await.expect("the lease lives");
    transaction.commit().await.expect("a commit");
    let mut release = Box::pin(guard.release());
    let is_ready = poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx).is_ready())).await;
    assert!(!is_ready, "it is under way");
    next(&mut tasks).await.release().await.expect("an answer");
    drop(release);
}
