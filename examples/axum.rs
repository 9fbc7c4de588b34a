//! A route under a lock. `cargo run -p lock-examples --example axum`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Path;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use lock_axum::LockLayer;
use lock_core::{LockError, LockManager};
use tower::ServiceExt;

/// Runs for one request at a time for each order.
async fn pay(Path(id): Path<u64>) -> String {
    tokio::time::sleep(Duration::from_millis(50)).await;
    format!("order {id} is paid")
}

fn routes(locks: LockManager) -> Result<Router, LockError> {
    // With `<id:u64>`, /orders/1 and /orders/01 are one order and have one key. `check` finds mistakes at start-up.
    let one_at_a_time = LockLayer::new(locks).key("order:<id:u64>").ttl(Duration::from_secs(5)).check()?;
    Ok(Router::new().route("/orders/{id}/pay", post(pay).route_layer(one_at_a_time)))
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let locks = LockManager::from_env_or("memory://").await?;
    // A service calls `axum::serve(listener, app).with_graceful_shutdown(..)` here, and then `locks.shutdown(..)`.
    let app = routes(locks.clone())?;

    let (first, again, other) = tokio::join!(ask(&app, "1"), ask(&app, "01"), ask(&app, "2"));
    println!("/orders/1/pay   {} {}", first.0, first.1);
    println!("/orders/01/pay  {} {}", again.0, again.1);
    println!("/orders/2/pay   {} {}", other.0, other.1);
    // One of the two requests is served, and the other is refused.
    let (winner, loser) = (first.0.min(again.0), first.0.max(again.0));
    assert_eq!((winner, loser, other.0), (StatusCode::OK, StatusCode::CONFLICT, StatusCode::OK));
    locks.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

/// Sends a request to the routes, and returns the answer.
async fn ask(app: &Router, order: &str) -> (StatusCode, String) {
    let request = Request::post(format!("/orders/{order}/pay")).body(Body::empty()).expect("a good request");
    let answer = app.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
    let status = answer.status();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap_or_default();
    (status, String::from_utf8_lossy(&body).into_owned())
}
