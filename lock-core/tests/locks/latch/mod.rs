//! Tests of count-down latches.

mod keeping;
mod steps;
mod store;
mod waiting;

use std::time::Duration;

use lock_core::{CountDownLatch, LockErrorKind, Result};
use tokio::time::sleep;

use crate::millis;

const MINUTE: Duration = Duration::from_secs(60);

/// The longest delay of a waiter that misses its notification.
const BEAT: Duration = Duration::from_millis(667);

fn wait(latch: &CountDownLatch) -> tokio::task::JoinHandle<Result<()>> {
    let latch = latch.clone();
    tokio::spawn(async move { latch.wait().await })
}

async fn settle() {
    sleep(millis(5)).await;
}

fn kind<T: std::fmt::Debug>(answer: Result<T>) -> LockErrorKind {
    answer.expect_err("refused").kind()
}
