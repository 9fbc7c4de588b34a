//! Tasks of one process that hold a lock in turn.

use std::time::Duration;

use lock_core::LockManager;
use tokio::task::JoinSet;

/// How long each holds it: as long as a process hands a lock off before it checks for waiters elsewhere.
const HOLD: Duration = Duration::from_millis(10);

/// Has `tasks` tasks hold the key `k` `holds` times each. They wait for each other for a `ttl` at most.
///
/// # Panics
/// The tasks panic if they do not get it, or if its release is not answered.
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
