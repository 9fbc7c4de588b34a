//! Both `key` and `keys`.

use lock_axum::LockLayer;
use lock_core::LockManager;

fn main() {
    let _layer = LockLayer::new(LockManager::in_memory()).key("order:<id>").keys(["stock:<item>"]);
}
