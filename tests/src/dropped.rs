//! Drops a lock, and sends the next request from the same process.

use std::time::Duration;

use lock_core::{LockManager, strategy};
use tokio::sync::Notify;

/// Drops a guard, and then a body that holds the lock, a hundred times. The next request of this process does not wait.
///
/// # Panics
/// When a request is refused because its own process is still releasing the lock.
pub async fn dropped_refuses_no_request(locks: &LockManager, ttl: Duration) {
    let request = || locks.lock("k").ttl(ttl).strategy(strategy::fail_fast());
    for number in 0..100 {
        let guard = request().acquire().await;
        drop(guard.unwrap_or_else(|error| panic!("after body {number}: {error}")));
        let entered = Notify::new();
        let body = async {
            entered.notify_one();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = request().run(body) => panic!("after guard {number}: {ended:?}"),
            () = entered.notified() => {}
        }
    }
}
