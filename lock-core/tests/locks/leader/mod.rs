//! Tests of the leader election.

mod following;
mod leading;
mod running;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::leader::Leader;
use lock_core::{LockManager, Result};

async fn settle() {
    tokio::time::sleep(crate::millis(5)).await;
}

fn label(leader: Option<&Leader>) -> Option<&str> {
    leader?.record.as_ref()?.label()
}

/// Deposes the leader of `key` by a forced release, as an operator does.
async fn depose(locks: &LockManager, key: &str) -> Result<bool> {
    let leader = locks.leader(key).current().await?.expect("somebody leads");
    locks.force_release(key, &leader.id, "a test").await
}

/// Counts the bodies that exist now.
#[derive(Clone, Debug, Default)]
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn one(&self) -> One {
        self.0.fetch_add(1, Ordering::SeqCst);
        One(self.0.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

struct One(Arc<AtomicUsize>);

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
