//! Tests of everything that an operator sees: metrics, spans, the log, and the stream of events.
#![allow(clippy::mem_forget, reason = "a forgotten guard is what a stuck holder leaves")]
#![cfg(feature = "testkit")]

#[cfg(all(feature = "metrics", feature = "macros"))]
mod attributes;
#[cfg(feature = "metrics")]
mod dashboards;
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

/// Returns a manager on a store that fails on demand. `with` changes the settings of the manager.
fn flaky(with: impl FnOnce(ManagerBuilder) -> ManagerBuilder) -> (LockManager, FlakyControl) {
    let (store, control) = Flaky::new(Memory::new());
    (with(LockManager::builder(store)).build().expect("settings that fit"), control)
}

const TEMPLATE: &str = "order:<id>";
const KEY: &str = "order:secret-42";

/// Returns a request for the key of the template. The request does not wait.
fn order(locks: &LockManager) -> LockRequest {
    locks.lock(KEY).template(TEMPLATE).strategy(strategy::fail_fast())
}

/// Returns the same request, but it waits for up to `limit`.
fn patient(locks: &LockManager, limit: Duration) -> LockRequest {
    order(locks).strategy(strategy::retry().within(limit))
}
