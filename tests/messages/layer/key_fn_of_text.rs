//! Text is not a key: values that come from outside must be encoded.

use lock_axum::LockLayer;
use lock_core::LockManager;

fn main() {
    let _layer = LockLayer::new(LockManager::in_memory()).key_fn("order", |parts| format!("order:{}", parts.uri));
}
