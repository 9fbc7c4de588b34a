//! Tests the layer around a tower service, without axum: `cargo test -p lock-axum --no-default-features --test bare`.
#![cfg(not(feature = "axum"))]

use std::convert::Infallible;

use http::{Request, Response, StatusCode};
use lock_axum::{LockHandle, LockLayer};
use lock_core::LockManager;
use tower::{Layer, ServiceExt, service_fn};

type Body = String;

fn request(tenant: &str) -> Request<Body> {
    Request::builder().uri("/").header("x-tenant", tenant).body(Body::new()).expect("a request")
}

#[tokio::test]
async fn a_service_of_tower_runs_under_its_lock() {
    let locks = LockManager::in_memory();
    let layer = LockLayer::new(locks.clone()).key("tenant:<header.x-tenant>").check().expect("a layer");
    let service = layer.layer(service_fn(async |request: Request<Body>| {
        let lock = request.extensions().get::<LockHandle>().expect("it runs under a lock");
        Ok::<_, Infallible>(Response::new(lock.key().to_owned()))
    }));
    let served = service.clone().oneshot(request("acme")).await.expect("no failure");
    assert_eq!(served.status(), StatusCode::OK);
    let held = locks.lock("tenant:acme").acquire().await.expect("it is free again");
    assert_eq!(
        service.clone().oneshot(request("acme")).await.expect("an answer").status(),
        StatusCode::CONFLICT
    );
    assert_eq!(service.oneshot(request("other")).await.expect("an answer").status(), StatusCode::OK);
    drop(held);
}

#[test]
#[should_panic(expected = "add the feature `axum`")]
fn a_path_parameter_is_refused_at_start_up() {
    let _layer = LockLayer::new(LockManager::in_memory()).key("order:<id>");
}

#[test]
#[should_panic(expected = "add the feature `axum`")]
fn a_route_is_refused_at_start_up() {
    let _layer = LockLayer::new(LockManager::in_memory()).key("<route>");
}
