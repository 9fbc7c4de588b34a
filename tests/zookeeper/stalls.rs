//! Many waiters of several kinds: no key is free for long while somebody waits for it.

use lock_tests::ZooKeeperServers;

use crate::no_stall::no_key_is_free_while_somebody_waits;
use crate::support::{connect, url};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_the_tasks_of_one_process() {
    let server = ZooKeeperServers::start();
    no_key_is_free_while_somebody_waits(&[connect(&url(&server)).await], 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_three_processes() {
    let server = ZooKeeperServers::start();
    let managers = [connect(&url(&server)).await, connect(&url(&server)).await, connect(&url(&server)).await];
    no_key_is_free_while_somebody_waits(&managers, 40).await;
}
