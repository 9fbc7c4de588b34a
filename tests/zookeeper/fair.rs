//! The kind `fair`, in which every waiter has its own node.

use std::sync::{Arc, Mutex};

use lock_core::strategy::retry;
use lock_tests::{PATIENCE, wait_until};
use tokio::task::JoinSet;

use crate::in_line::is_served_in_order;
use crate::support::{LONG, connect, patient_servers, patient_url};

#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_several_processes_are_served_in_order() {
    let servers = patient_servers();
    let url = patient_url(&servers);
    let [one, two, three] = [connect(&url).await, connect(&url).await, connect(&url).await];
    is_served_in_order([&one, &two, &three]).await;
    wait_until("no node is left", PATIENCE, async || servers.nodes("locks/k") == 0).await;
}

/// Some of the waiters find no directory. They have to repeat their request while others still arrive.
#[tokio::test]
async fn the_first_crowd_at_a_key_is_served_in_order() {
    const WAITERS: usize = 150;
    let servers = patient_servers();
    let locks = connect(&patient_url(&servers)).await;
    // The requests that wait for the first session of a manager are sent in any order.
    locks.fair("other").ttl(LONG).run(async {}).await.expect("it is free");
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut crowd = JoinSet::new();
    for number in 0..WAITERS {
        let request = locks.fair("k").ttl(LONG).strategy(retry().within(PATIENCE * 6));
        let served = Arc::clone(&served);
        crowd.spawn(async move {
            let held = request.acquire().await.expect("its turn comes");
            served.lock().expect("no panic").push(number);
            held.release().await.expect("an answer");
        });
    }
    crowd.join_all().await;
    assert_eq!(*served.lock().expect("no panic"), Vec::from_iter(0..WAITERS));
}
