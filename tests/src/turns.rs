//! Tasks of one process that hold a lock in turn.

use std::time::Duration;

use lock_core::LockManager;
use tokio::task::JoinSet;

/// The duration of each hold. It is as long as a process hands a lock off before it checks for waiters elsewhere.
const HOLD: Duration = Duration::from_millis(10);

/// Runs `tasks` tasks that each hold the key `k` `holds` times. A task waits for the lock for at most a `ttl`.
///
/// # Panics
/// The tasks panic if they do not get the lock, or if its release is not answered.
#[must_use]
pub fn take_turns(locks: &LockManager, ttl: Duration, tasks: u32, holds: u32) -> JoinSet<()> {
    let mut turns = JoinSet::new();
    for _ in 0..tasks {
        let locks = locks.clone();
        turns.spawn(async move {
            for _ in 0..holds {
                let guard = locks.lock("k").ttl(ttl).wait(ttl).acquire().await.expect("its turn");
                tokio::time::sleep(HOLD).await;
                guard.release().await.expect("an answer");
            }
        });
    }
    turns
}
