//! A crowd of waiters of one process for one key.

use std::time::Duration;

use lock_core::strategy::retry;
use lock_tests::{Bound, Crowd, PATIENCE, Proxy, wait_until};

use crate::support::{LONG, connect, patient_servers, patient_url};

const WAITERS: usize = 150;
const MINUTES: Duration = Duration::from_secs(180);

/// The deletion of any node may serve a waiter for a permit. If each of them read the queue then, they would be told of a
/// million nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_at_a_semaphore_reads_a_change_once() {
    let servers = patient_servers();
    let proxy = Proxy::to(servers.address(0));
    let (near, url) = (connect(&patient_url(&servers)).await, patient_url(&servers));
    let port = |port: u16| format!(":{port}/");
    let locks = connect(&url.replace(&port(servers.address(0).port()), &port(proxy.port()))).await;
    let held = near.semaphore("k", 1).ttl(LONG).acquire().await.expect("it is free");
    let mut crowd = Crowd::default();
    for number in 0..WAITERS {
        crowd.add(number, locks.semaphore("k", 1).ttl(LONG).strategy(retry().within(MINUTES)));
    }
    wait_until("all wait", MINUTES, async || servers.nodes("locks/k") == WAITERS + 1).await;
    let (before, clock) = (proxy.traffic().replies.seen, Bound::new(MINUTES));
    held.release().await.expect("an answer");
    crowd.all_served(MINUTES).await;
    let read = proxy.traffic().replies.seen - before;
    // A few reads of 75 nodes on average for each of them, and one every two seconds.
    let most = 8_000_000 + 15_000 * clock.elapsed().as_secs();
    assert!(read < most, "{read} bytes for {WAITERS} waiters");
    wait_until("nothing is left", PATIENCE, async || servers.nodes("locks/k") == 0).await;
}
