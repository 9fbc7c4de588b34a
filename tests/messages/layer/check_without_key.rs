//! A layer without a key, which is checked.

use lock_axum::LockLayer;
use lock_core::LockManager;

fn main() {
    let _layer = LockLayer::new(LockManager::in_memory()).check();
}
