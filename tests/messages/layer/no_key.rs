//! A layer without a key.

use axum::Router;
use axum::routing::post;
use lock_axum::LockLayer;
use lock_core::LockManager;

fn main() {
    let layer = LockLayer::new(LockManager::in_memory());
    let _app: Router = Router::new().route("/pay", post(async || "paid").route_layer(layer));
}
