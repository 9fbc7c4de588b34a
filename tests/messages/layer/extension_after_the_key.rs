//! An extension after the key that could have used it.

use lock_axum::LockLayer;
use lock_core::LockManager;

fn main() {
    let layer = LockLayer::new(LockManager::in_memory()).key("order:<id>");
    let _layer = layer.extension::<u32>("Tenant");
}
