//! Pings of stores that work, and of stores that do not.

use lock_core::{LockError, LockManager, Ping};
use lock_tests::{Bound, PATIENCE};

/// Pings until the store serves locks.
pub(crate) async fn serves(locks: &LockManager) -> Ping {
    serves_as(locks, |_| true).await
}

/// Pings until the store serves locks with a result that `expected` accepts.
pub(crate) async fn serves_as(locks: &LockManager, expected: impl Fn(&Ping) -> bool) -> Ping {
    let bound = Bound::new(PATIENCE);
    loop {
        let answer = one(locks).await;
        match answer {
            Ok(ping) if expected(&ping) => return ping,
            answer => bound.check(&format!("the store serves locks: {answer:?}")),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Pings until the store refuses. The error must be temporary, and name `server`.
pub(crate) async fn refuses(locks: &LockManager, server: &str) -> LockError {
    let bound = Bound::new(PATIENCE);
    loop {
        if let Err(error) = one(locks).await {
            assert!(error.is_unavailable() && error.is_temporary(), "{error:?}");
            assert!(error.to_string().contains(server), "{error} without {server}");
            return error;
        }
        bound.check("the store refuses a ping");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Pings once. A ping has the time limit of a call.
async fn one(locks: &LockManager) -> Result<Ping, LockError> {
    tokio::time::timeout(PATIENCE, locks.ping()).await.expect("a ping ends within the time of a call")
}
