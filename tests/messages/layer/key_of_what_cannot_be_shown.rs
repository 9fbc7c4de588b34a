//! The value of a key must implement `Display`.

use axum::extract::Path;
use lock_axum::LockLayer;
use lock_core::LockManager;

struct Order;

fn main() {
    let _layer = LockLayer::new(LockManager::in_memory()).key_of("order:<id>", |_: Path<u64>| Order);
}
