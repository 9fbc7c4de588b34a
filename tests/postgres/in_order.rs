//! The order of arrival, with and without holders that verify their lease in a transaction.

use std::sync::{Arc, Mutex};

use lock_core::LockRequest;
use lock_core::backend::postgres::tokio_postgres::Client;
use lock_tests::{PATIENCE, PgBouncer, PostgresServer};

use crate::in_line::{fair, is_served_in_order, waiting};
use crate::support::{connect, empty, manager, ms, within};
use crate::verify::application;

type Order = Arc<Mutex<Vec<usize>>>;

/// How a task ends its hold.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The task releases after the transaction that verified the lease was committed.
    Committed,
    /// The task releases before its transaction ends.
    Open,
    /// The task releases without a transaction.
    Unverified,
    /// The guard is dropped, and the background releases the lock.
    Dropped,
}

/// Waits for the key, verifies the lease, and releases.
async fn turn(request: LockRequest, mut client: Client, end: End, number: usize, order: Order) {
    let guard = request.acquire().await.expect("granted");
    // The next holder does not get the key before the transaction of the last holder has ended.
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

/// Queues tasks of two processes. Returns the order in which they held the key.
async fn order_of(end: impl Fn(usize) -> End) -> Vec<usize> {
    let server = PostgresServer::start();
    let (one, two) = (manager(&server).await, manager(&server).await);
    let mut waiters = Vec::new();
    for locks in [&one, &one, &one, &two, &two, &one, &one] {
        waiters.push((fair(locks), application(&server).await));
    }
    let held = fair(&two).acquire().await.expect("it is free");
    let (order, mut tasks) = (Order::default(), Vec::new());
    for (number, (request, client)) in waiters.into_iter().enumerate() {
        tasks.push(tokio::spawn(turn(request, client, end(number), number, Arc::clone(&order))));
        waiting(&two, number + 1).await;
    }
    held.release().await.expect("an answer");
    for task in tasks {
        within(PATIENCE, "a turn", task).await.expect("no panic");
    }
    empty(&server, PATIENCE).await;
    order.lock().expect("no panic").clone()
}

/// Covers the sessions of the library, and those of a pooler.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_several_processes_are_served_in_order() {
    for pooled in [false, true] {
        let server = PostgresServer::start();
        drop(manager(&server).await);
        let pooler = pooled.then(|| PgBouncer::before(&server, 8, ""));
        let url = pooler
            .as_ref()
            .map_or_else(|| server.url(), |pooler| format!("{}?listen=off&timeout=10s", pooler.url()));
        let [one, two, three] = [connect(&url).await, connect(&url).await, connect(&url).await];
        is_served_in_order([&one, &two, &three]).await;
        empty(&server, PATIENCE).await;
    }
}

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
