//! Many waiters of several kinds: no key is free for long while a waiter wants it.

use lock_core::LockManager;
use lock_tests::PostgresServer;

use crate::no_stall::no_key_is_free_while_somebody_waits;
use crate::support::connect;

/// Makes a manager whose calls outlast a server that is slow because the machine is.
async fn manager(server: &PostgresServer) -> LockManager {
    connect(&format!("{}&timeout=10s", server.url())).await
}

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
