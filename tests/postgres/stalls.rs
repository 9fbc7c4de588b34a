//! Many waiters of several kinds. No key is free for long while a waiter waits for it.

use lock_tests::PostgresServer;

use crate::no_stall::no_key_is_free_while_somebody_waits;
use crate::support::manager;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_the_tasks_of_one_process() {
    let server = PostgresServer::start();
    no_key_is_free_while_somebody_waits(&[manager(&server).await], 50).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_three_processes() {
    let server = PostgresServer::start();
    let managers = [manager(&server).await, manager(&server).await, manager(&server).await];
    no_key_is_free_while_somebody_waits(&managers, 50).await;
}
