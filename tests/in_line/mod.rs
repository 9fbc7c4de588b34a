//! Tasks of several processes that wait for one fair lock. The tests of several stores include this module.

use std::sync::{Arc, Mutex};

use lock_core::{LockManager, LockRequest, strategy};
use lock_tests::{PATIENCE, wait_until};

use crate::support::{LONG, within};

/// Returns a request that waits without end, with a lease that no test outlives.
pub(crate) fn fair(locks: &LockManager) -> LockRequest {
    locks.fair("k").ttl(LONG).strategy(strategy::wait())
}

/// Waits until the store has a queue of this length for the key.
pub(crate) async fn waiting(locks: &LockManager, number: usize) {
    wait_until("all have a place", PATIENCE, async || {
        locks.inspect("k").await.is_ok_and(|info| info.is_some_and(|info| info.waiting == number))
    })
    .await;
}

/// Queues tasks in sequence: several of one process, then one of another. Some of them give up. Checks that the others
/// get the key in their order, with growing tokens.
pub(crate) async fn is_served_in_order(processes: [&LockManager; 3]) {
    const ORDER: [usize; 13] = [0, 0, 1, 0, 0, 0, 1, 1, 2, 0, 1, 0, 0];
    const GONE: [usize; 4] = [0, 5, 6, 12];
    let held = fair(processes[2]).acquire().await.expect("it is free");
    let (grants, mut tasks) = (Arc::new(Mutex::new(Vec::new())), Vec::new());
    for (number, process) in ORDER.into_iter().enumerate() {
        let (request, grants) = (fair(processes[process]).fencing(true), Arc::clone(&grants));
        tasks.push(tokio::spawn(async move {
            let guard = request.acquire().await.expect("granted");
            let token = guard.fencing_token().await.expect("it came with the grant").get();
            grants.lock().expect("no panic").push((number, token));
            guard.release().await.expect("an answer");
        }));
        waiting(processes[2], number + 1).await;
    }
    GONE.iter().for_each(|gone| tasks[*gone].abort());
    waiting(processes[2], ORDER.len() - GONE.len()).await;
    held.release().await.expect("an answer");
    for (number, task) in tasks.into_iter().enumerate() {
        let ended = within(PATIENCE, "a turn", task).await;
        assert_eq!(ended.is_err(), GONE.contains(&number), "{number}");
    }
    let grants = grants.lock().expect("no panic");
    assert!(grants.is_sorted() && grants.is_sorted_by_key(|(_, token)| *token), "{grants:?}");
}
