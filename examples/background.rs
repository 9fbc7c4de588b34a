//! Work that continues after an answer 202, under the lock of its request. `cargo run -p lock-examples --example
//! background`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use lock_axum::{LockHandle, LockLayer, LockRejection};
use lock_core::{LockError, LockGuard, LockManager};
use tower::ServiceExt;

/// Answers at once. The guard keeps the lock, and renews it, until the import has ended.
async fn import(lock: LockHandle) -> Result<StatusCode, LockRejection> {
    tokio::spawn(work(lock.to_guard()?));
    Ok(StatusCode::ACCEPTED)
}

async fn work(guard: LockGuard) {
    // Drops the work if the lock is lost.
    let done = guard.run(tokio::time::sleep(Duration::from_millis(500))).await;
    println!("the import has ended: {done:?}");
    if let Err(error) = guard.release().await {
        println!("the lock was not released: {error}");
    }
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let locks = LockManager::from_env_or("memory://").await?;
    // `max_hold` limits the whole time, the work included.
    let layer = LockLayer::new(locks.clone()).key("import:<id:u64>").max_hold(Duration::from_secs(3_600));
    let app = Router::new().route("/imports/{id}", post(import).route_layer(layer.check()?));

    let (first, again) = (ask(&app).await, ask(&app).await);
    println!("the first request: {first}, and one while it works: {again}");
    assert_eq!((first, again), (StatusCode::ACCEPTED, StatusCode::CONFLICT));

    // Waits until the work has released the lock.
    locks.lock("import:7").acquire().await?.release().await?;
    let later = ask(&app).await;
    println!("one after the work: {later}");
    assert_eq!(later, StatusCode::ACCEPTED);
    // Waits for the guards of work that still runs.
    println!("{:?}", locks.shutdown(Duration::from_secs(2)).await);
    Ok(())
}

async fn ask(app: &Router) -> StatusCode {
    let request = Request::post("/imports/7").body(Body::empty()).expect("a good request");
    app.clone().oneshot(request).await.unwrap_or_else(|never| match never {}).status()
}
