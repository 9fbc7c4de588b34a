//! Tests the label of the locks that a layer acquires.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::post;
use http::{Request, StatusCode};
use lock_axum::LockLayer;
use lock_core::owner::OwnerRecord;
use lock_core::{LockErrorKind, LockManager};

use crate::support::{send, text};

#[derive(Clone)]
struct User(&'static str);

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

async fn record(locks: &LockManager) -> OwnerRecord {
    let held = locks.inspect("order:7").await.unwrap().expect("the handler runs under its lock");
    held.holders[0].record.clone().expect("a record")
}

/// Answers with the label of the lock that the handler holds.
async fn show(State(locks): State<LockManager>) -> String {
    record(&locks).await.label().unwrap_or("(none)").to_owned()
}

fn app(locks: &LockManager, layer: LockLayer) -> Router {
    let layer = layer.check().unwrap();
    Router::new().route("/orders/{id}/pay", post(show).route_layer(layer)).with_state(locks.clone())
}

fn pay() -> http::request::Builder {
    Request::post("/orders/7/pay?page=3")
}

#[tokio::test]
async fn a_label_has_the_values_of_the_request_and_refuses_none() {
    let locks = LockManager::in_memory();
    let layer = LockLayer::new(locks.clone())
        .extension::<User>("User")
        .key("order:<id:u64>")
        .label("<method> <route> <id>, user <ext.User>, request <header.x-request-id>, page <query.page:u8>");
    let app = app(&locks, layer);
    let whole = pay().header("x-request-id", "af 09").extension(User("ann")).body(Body::empty()).unwrap();
    let answer = send(&app, whole).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(text(answer).await, "POST /orders/{id}/pay 7, user ann, request af 09, page 3");
    let answer = send(&app, Request::post("/orders/7/pay?page=x").body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(text(answer).await, "POST /orders/{id}/pay 7, user -, request -, page -");
}

#[tokio::test]
async fn what_a_client_sends_is_cut_and_forges_no_line() {
    let locks = LockManager::in_memory();
    let app = app(&locks, LockLayer::new(locks.clone()).key("order:<id>").label("of <header.x-user>"));
    let long = pay().header("x-user", "x".repeat(9_000)).body(Body::empty()).unwrap();
    let shown = text(send(&app, long).await).await;
    assert!(shown.len() <= 256 && shown.ends_with("x…"), "{shown}");
    let tab = pay().header("x-user", "ann\tERROR").body(Body::empty()).unwrap();
    assert_eq!(text(send(&app, tab).await).await, "of ann\tERROR", "escaped where it is shown");
    let _guard = locks.lock("other").label("of ann\tERROR").acquire().await.unwrap();
    let error = locks.lock("other").wait(Duration::ZERO).acquire().await.unwrap_err().to_string();
    assert!(error.contains("of ann\\tERROR"), "{error}");
}

#[tokio::test]
async fn whoever_waits_learns_for_which_request_the_key_is_held() {
    let locks = LockManager::in_memory();
    let app =
        app(&locks, LockLayer::new(locks.clone()).key("order:<id>").label("request <header.x-request-id>"));
    let _busy = locks.lock("order:7").label("the nightly job").acquire().await.unwrap();
    let refused = pay().header("x-request-id", "1").body(Body::empty()).unwrap();
    let answer = send(&app, refused).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    assert!(!text(answer).await.contains("nightly"), "never to a client");
}

#[test]
fn an_invalid_label_is_found_at_the_start() {
    let layer = || LockLayer::new(LockManager::in_memory());
    for (label, says) in [
        ("<header.a b>", "not the name of a header"),
        ("<ext.User>", "no extension `User` is registered"),
        ("request <id", "is not closed"),
    ] {
        let error = layer().key("k").label(label).check().unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidKey);
        assert!(error.to_string().contains(says), "{error}");
    }
}
