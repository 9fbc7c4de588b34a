//! A program that depends on the packages as they would be published, and uses the exports of each. The step `packages`
//! of `.ci/run` makes a package of it.

use std::error::Error;

use axum::{Router, body::Body, http::Request, routing::post};
use lock_axum::LockLayer;
use lock_core::{LockError, LockErrorKind, LockManager, distributed_lock};
use tower::ServiceExt;

#[distributed_lock(key = "order:<id>", ttl = "500ms", strategy = "fail_fast", manager = locks)]
async fn pay(locks: &LockManager, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockManager::connect("memory://").await?;
    assert_eq!(pay(&locks, 7).await?, 7);

    let guard = locks.lock("order:7").acquire().await?;
    let refused = pay(&locks, 7).await.expect_err("the key is held");
    assert_eq!(refused.kind(), LockErrorKind::Contended, "{refused}");

    let layer = LockLayer::new(locks.clone()).key("order:<id:u64>").check()?;
    let app: Router = Router::new().route("/orders/{id}/pay", post(|| async { "paid" }).route_layer(layer));
    let request = || Request::post("/orders/7/pay").body(Body::empty());
    assert_eq!(app.clone().oneshot(request()?).await?.status(), 409);
    guard.release().await?;
    assert_eq!(app.oneshot(request()?).await?.status(), 200);

    // Each store is in the package, because its URL is refused for its address, and not for a missing feature.
    for url in ["redis://", "redlock://", "postgres://", "etcd://", "zookeeper://"] {
        let refused = LockManager::connect(url).await.expect_err("no host");
        assert!(!refused.to_string().contains("feature"), "{url}: {refused}");
    }
    println!("the packages work");
    Ok(())
}
