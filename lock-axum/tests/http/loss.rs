//! Tests locks that are lost while a request is served.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use http::StatusCode;
use http::header::RETRY_AFTER;
use lock_axum::{Hold, LockLayer};
use lock_core::LockManager;
use tokio::sync::mpsc;

use crate::bodies::Frames;
use crate::support::{Log, OnDrop, get, is_free, send, text};

#[tokio::test(start_paused = true)]
async fn a_lost_lock_drops_the_handler_and_says_that_effects_are_unknown() {
    let (locks, log) = (LockManager::in_memory(), Log::default());
    let handler = {
        let log = log.clone();
        async move || {
            let _local = OnDrop(log.clone(), "dropped");
            tokio::time::sleep(Duration::from_secs(60)).await;
            log.add("went on without the lock");
        }
    };
    let layer = LockLayer::new(locks.clone()).key("order:<id>").max_hold(Duration::from_secs(1));
    let app = Router::new().route("/orders/{id}", on_get(handler).layer(layer));
    let response = send(&app, get("/orders/42")).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(!response.headers().contains_key(RETRY_AFTER));
    assert!(text(response).await.contains("lock-lost"));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(log.all(), ["dropped"]);
    assert!(is_free(&locks, "order:42").await);
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_lock_is_lost_ends_with_an_error() {
    let locks = LockManager::in_memory();
    let (frames, body) = mpsc::unbounded_channel();
    let body = std::sync::Arc::new(std::sync::Mutex::new(Some(Frames::new(body))));
    let handler = async move || Body::new(body.lock().unwrap().take().unwrap());
    let layer =
        LockLayer::new(locks.clone()).key("order:<id>").max_hold(Duration::from_secs(1)).hold(Hold::Body);
    let app = Router::new().route("/orders/{id}", on_get(handler).layer(layer));
    let response = send(&app, get("/orders/42")).await;
    assert_eq!(response.status(), StatusCode::OK);
    frames.send("first").unwrap();
    let whole = axum::body::to_bytes(response.into_body(), usize::MAX);
    let ended = tokio::time::timeout(Duration::from_secs(60), whole).await;
    let error = ended.expect("the body does not go on for ever").unwrap_err();
    assert!(format!("{error:?}").contains("max_hold"), "{error:?}");
    assert!(frames.is_closed(), "the body was dropped");
    assert!(is_free(&locks, "order:42").await);
}
