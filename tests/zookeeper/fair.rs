//! The kind `fair`: every waiter has its own node.

use lock_tests::{PATIENCE, wait_until};

use crate::in_line::is_served_in_order;
use crate::support::{connect, patient_servers, patient_url};

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_several_processes_are_served_in_order() {
    let servers = patient_servers();
    let url = patient_url(&servers);
    let [one, two, three] = [connect(&url).await, connect(&url).await, connect(&url).await];
    is_served_in_order([&one, &two, &three]).await;
    wait_until("no node is left", PATIENCE, async || servers.nodes("locks/k") == 0).await;
}
