//! Many waiters of several kinds. No key is free for long while a waiter waits for it.

use lock_core::LockManager;
use lock_tests::Etcd;

use crate::no_stall::no_key_is_free_while_somebody_waits;
use crate::support::connect;

/// Returns a manager whose calls tolerate a server that is slow because the machine is busy.
async fn manager(server: &Etcd) -> LockManager {
    connect(&format!("{}?timeout=10s", server.url())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_the_tasks_of_one_process() {
    let server = Etcd::start();
    no_key_is_free_while_somebody_waits(&[manager(&server).await], 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_three_processes() {
    let server = Etcd::start();
    let managers = [manager(&server).await, manager(&server).await, manager(&server).await];
    no_key_is_free_while_somebody_waits(&managers, 40).await;
}
