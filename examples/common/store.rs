//! The store of the locks, which `LOCK_URL` names; without it, the memory of this process.

use std::time::Duration;

use lock_core::{LockError, ManagerBuilder};

const DEFAULT: &str = "memory://";
/// How often it is dialled, and the pause between two tries.
const TRIES: u32 = 10;
const AGAIN: Duration = Duration::from_millis(100);

/// Connects to it. A server that is slow for a moment is no reason to give up.
pub(crate) async fn connect() -> Result<ManagerBuilder, LockError> {
    for _ in 1..TRIES {
        match ManagerBuilder::from_env_or(DEFAULT).await {
            Err(error) if error.is_temporary() => tokio::time::sleep(AGAIN).await,
            connected => return connected,
        }
    }
    ManagerBuilder::from_env_or(DEFAULT).await
}

/// Returns whether other processes can share the store. Not whether `LOCK_URL` is set: it may say `memory://`.
pub(crate) fn is_shared(store: &str) -> bool {
    store != "memory"
}
