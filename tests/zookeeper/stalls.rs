//! Many waiters of several kinds. No key is free for long while a waiter waits for it.

use crate::no_stall::no_key_is_free_while_somebody_waits;
use crate::support::{connect, patient_servers, patient_url};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_the_tasks_of_one_process() {
    let server = patient_servers();
    no_key_is_free_while_somebody_waits(&[connect(&patient_url(&server)).await], 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_three_processes() {
    let server = patient_servers();
    let url = patient_url(&server);
    let managers = [connect(&url).await, connect(&url).await, connect(&url).await];
    no_key_is_free_while_somebody_waits(&managers, 40).await;
}
