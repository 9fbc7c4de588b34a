//! Tests of the library on the memory store, with a paused clock.
#![allow(clippy::disallowed_methods, reason = "tests read the paused clock")]
#![allow(clippy::mem_forget, reason = "a forgotten guard is what a crash leaves")]

mod acquire;
mod bad_input;
mod deciding;
mod drops;
mod early;
mod ending;
#[cfg(feature = "testkit")]
mod faults;
mod foreign;
mod giving_back;
mod handoff;
mod hazards;
mod keeping;
mod kinds;
mod latch;
mod leader;
#[cfg(feature = "testkit")]
mod lingering;
mod loss;
mod manager;
mod no_stall;
mod offline;
#[cfg(feature = "testkit")]
mod outage;
mod permits;
mod queue_store;
mod reentrancy;
mod refusals;
mod releasing;
mod renewal;
mod scripted;
#[cfg(feature = "testkit")]
mod sessions;
mod storm;
mod untold;
mod waiting;
mod watching;
mod wire;

use std::time::Duration;

use lock_core::{LockManager, strategy};

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns whether another owner could acquire `key` now.
async fn is_free(locks: &LockManager, key: &str) -> bool {
    match locks.lock(key).try_acquire().await.expect("the memory store answers") {
        Some(guard) => {
            guard.release().await.expect("it was just taken");
            true
        }
        None => false,
    }
}

/// Returns a request that waits for up to `limit`.
fn patient(locks: &LockManager, key: &str, limit: Duration) -> lock_core::LockRequest {
    locks.lock(key).strategy(strategy::retry().within(limit))
}
