//! A future is not awaited.

use lock_axum::{KeyChoice, LockLayer};
use lock_core::LockManager;

fn main() {
    let _layer = LockLayer::new(LockManager::in_memory()).key_fn("order", |_parts| async { KeyChoice::Skip });
}
