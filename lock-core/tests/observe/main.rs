//! What an operator sees: metrics, spans, the log, the stream of events.
#![allow(clippy::mem_forget, reason = "a forgotten guard is what a stuck holder leaves")]
#![cfg(feature = "testkit")]

mod disowning;
#[cfg(feature = "metrics")]
mod evicting;
mod logs;
#[cfg(feature = "metrics")]
mod metrics;
mod quiet;
#[cfg(feature = "metrics")]
mod recorder;
mod spans;
mod stream;
mod subscriber;

use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::testkit::{Flaky, FlakyControl};
use lock_core::{LockManager, LockRequest, ManagerBuilder, strategy};

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A manager on a store that fails on command, and the settings are those of `with`.
fn flaky(with: impl FnOnce(ManagerBuilder) -> ManagerBuilder) -> (LockManager, FlakyControl) {
    let (store, control) = Flaky::new(Memory::new());
    (with(LockManager::builder(store)).build().expect("settings that fit"), control)
}

const TEMPLATE: &str = "order:<id>";
const KEY: &str = "order:secret-42";

/// A request of the template for the key, that does not wait.
fn order(locks: &LockManager) -> LockRequest {
    locks.lock(KEY).template(TEMPLATE).strategy(strategy::fail_fast())
}

/// The same, and waits for up to `limit`.
fn patient(locks: &LockManager, limit: Duration) -> LockRequest {
    order(locks).strategy(strategy::retry().within(limit))
}
