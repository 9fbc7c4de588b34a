//! The store of the locks: `LOCK_URL` names it. Without this variable, the store is the memory of this process.

use std::time::Duration;

use lock_core::{LockError, ManagerBuilder};

const DEFAULT: &str = "memory://";
/// The number of tries to connect, and the pause between two tries.
const TRIES: u32 = 10;
const AGAIN: Duration = Duration::from_millis(100);

/// Connects to the store. Tries again, because a server may be slow for a moment.
pub(crate) async fn connect() -> Result<ManagerBuilder, LockError> {
    for _ in 1..TRIES {
        match ManagerBuilder::from_env_or(DEFAULT).await {
            Err(error) if error.is_temporary() => tokio::time::sleep(AGAIN).await,
            connected => return connected,
        }
    }
    ManagerBuilder::from_env_or(DEFAULT).await
}

/// Returns whether other processes can share the store. `LOCK_URL` alone does not show this: it may be `memory://`.
pub(crate) fn is_shared(store: &str) -> bool {
    store != "memory"
}
