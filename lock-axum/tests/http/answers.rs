//! Tests the answers to requests that do not get their lock.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get as on_get;
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use lock_axum::LockLayer;
use lock_core::backend::memory::Memory;
use lock_core::{Kind, LockManager, strategy};

use crate::support::{Remote, get, send, text};

fn app(layer: LockLayer) -> Router {
    Router::new().route("/orders/{id}", on_get(async || "served").route_layer(layer))
}

fn retry_after<B>(response: &http::Response<B>) -> &str {
    response.headers()[RETRY_AFTER].to_str().unwrap()
}

/// Clients that were refused together get different values of `Retry-After`, even if the estimate is a whole second, as
/// the default is.
#[tokio::test(start_paused = true)]
async fn clients_do_not_all_come_back_together() {
    let locks = LockManager::in_memory();
    let _holder = locks.lock("order:42").acquire().await.unwrap();
    let layer = || LockLayer::new(locks.clone()).key("order:<id>");
    for (layer, expected) in [
        (layer(), &["1", "2"][..]),
        (layer().retry_after(Duration::from_secs(4)), &["4", "5"]),
        (layer().retry_after(Duration::from_secs(8)), &["10", "8", "9"]),
        (layer().retry_after(Duration::from_secs(30)), &["23", "24", "25", "26", "27", "28", "29", "30"]),
    ] {
        let app = app(layer);
        let mut told = std::collections::BTreeSet::new();
        for _ in 0..200 {
            told.insert(retry_after(&send(&app, get("/orders/42")).await).to_owned());
        }
        assert_eq!(told.iter().collect::<Vec<_>>(), expected);
    }
}

/// `Retry-After` is estimated from the duration of earlier requests. The rest of the holder's lease would be wrong,
/// because the lease is renewed.
#[tokio::test(start_paused = true)]
async fn a_client_is_told_to_come_back_after_what_requests_take() {
    let locks = LockManager::in_memory();
    let takes = Arc::new(Mutex::new(Duration::from_millis(300)));
    let handler = {
        let takes = Arc::clone(&takes);
        move || tokio::time::sleep(*takes.lock().unwrap())
    };
    let layer = LockLayer::new(locks.clone()).key("order:<id>");
    let app = Router::new().route("/orders/{id}", on_get(handler).route_layer(layer.check().unwrap()));
    let told = async || {
        let holder = locks.lock("order:42").acquire().await.unwrap();
        let body = text(send(&app, get("/orders/42")).await).await;
        holder.release().await.unwrap();
        let (_, rest) = body.split_once(r#""retry_after_ms":"#).unwrap();
        rest.split_once(',').unwrap().0.parse::<u32>().unwrap()
    };
    let first = told().await;
    assert!((1_000..=1_250).contains(&first), "nothing is known: {first}");
    assert_eq!(send(&app, get("/orders/42")).await.status(), StatusCode::OK);
    let quick = told().await;
    assert!((900..=1_125).contains(&quick), "three times 300 ms, and up to a quarter more: {quick}");
    *takes.lock().unwrap() = Duration::from_secs(60);
    assert_eq!(send(&app, get("/orders/42")).await.status(), StatusCode::OK);
    let slow = told().await;
    assert!((9_000..=12_500).contains(&slow), "never longer than the lease of 10 s: {slow}");
    let layer = LockLayer::new(locks.clone()).key("order:<id>").retry_after(Duration::from_secs(31));
    let error = layer.check().unwrap_err().to_string();
    assert!(error.contains("retry_after is 31s: a client is told 30s at most"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn contended_is_409_with_a_time_and_no_names() {
    let locks = LockManager::builder(Memory::new()).service("secret-service").build().unwrap();
    let app = app(LockLayer::new(locks.clone()).key("order:<id>"));
    let holder = locks
        .lock("order:42")
        .ttl(Duration::from_millis(2_500))
        .label("secret-label")
        .acquire()
        .await
        .unwrap();
    let response = send(&app, get("/orders/42")).await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    assert!(["1", "2"].contains(&retry_after(&response)), "{:?}", response.headers());
    let length = response.headers()["content-length"].to_str().unwrap().parse::<usize>().unwrap();
    let body = text(response).await;
    assert_eq!(body.len(), length);
    let (before, rest) = body.split_once(r#""retry_after_ms":"#).unwrap();
    let (after, behind) = rest.split_once(',').unwrap();
    assert!((1_000..=1_250).contains(&after.parse::<u32>().unwrap()), "up to a quarter more: {after}");
    assert_eq!(
        format!("{before}{behind}"),
        r#"{"type":"urn:problem-type:lock-contended","title":"Locked","status":409,"detail":"Another request has locked this resource.","lock":"order:<id>","waited_ms":0}"#
    );
    holder.release().await.unwrap();
    assert_eq!(text(send(&app, get("/orders/42")).await).await, "served");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_is_409_too() {
    let locks = LockManager::in_memory();
    let app = app(LockLayer::new(locks.clone()).wait(Duration::from_millis(700)).key("order:<id>"));
    let _holder = locks.lock("order:42").acquire().await.unwrap();
    let response = send(&app, get("/orders/42")).await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert!(response.headers().contains_key(RETRY_AFTER));
    let body = text(response).await;
    assert!(body.contains("lock-timed-out") && body.contains(r#""waited_ms":700"#), "{body}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_is_served_once_the_lock_is_free() {
    let locks = LockManager::in_memory();
    let app = app(LockLayer::new(locks.clone()).wait(Duration::from_secs(5)).key("order:<id>"));
    let holder = locks.lock("order:42").acquire().await.unwrap();
    let waiting = tokio::spawn(async move { send(&app, get("/orders/42")).await.status() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    holder.release().await.unwrap();
    assert_eq!(waiting.await.unwrap(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn too_many_waiters_is_503() {
    let locks = LockManager::in_memory();
    let app = app(LockLayer::new(locks.clone()).strategy(strategy::wait()).max_waiters(1).key("order:<id>"));
    let _holder = locks.lock("order:42").acquire().await.unwrap();
    let first = tokio::spawn({
        let app = app.clone();
        async move { send(&app, get("/orders/42")).await }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let response = send(&app, get("/orders/42")).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key(RETRY_AFTER));
    assert!(text(response).await.contains("lock-overloaded"));
    first.abort();
}

#[tokio::test]
async fn a_store_that_is_down_is_503_and_its_address_stays_in_the_log() {
    let store = Remote::default();
    store.down.store(true, Ordering::Relaxed);
    let response = send(&app(LockLayer::new(store.manager()).key("order:<id>")), get("/orders/42")).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(["1", "2"].contains(&retry_after(&response)), "{:?}", response.headers());
    let body = text(response).await;
    assert!(body.contains("lock-store-unavailable") && body.contains("order:<id>"), "{body}");
    for secret in ["redis", "secret", "store:6379", "order:42"] {
        assert!(!body.contains(secret), "{body}");
    }
}

#[tokio::test]
async fn a_manager_that_shuts_down_sends_clients_elsewhere() {
    let locks = LockManager::in_memory();
    let app = app(LockLayer::new(locks.clone()).key("order:<id>"));
    locks.shutdown(Duration::ZERO).await;
    let response = send(&app, get("/orders/42")).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[CONNECTION], "close");
    assert!(["1", "2"].contains(&retry_after(&response)), "{:?}", response.headers());
    assert!(text(response).await.contains("lock-shutting-down"));
}

#[tokio::test]
async fn a_request_that_the_store_cannot_do_is_an_opaque_500() {
    let locks = LockManager::in_memory();
    let app = app(LockLayer::new(locks.clone()).kind(Kind::Semaphore { permits: 2 }).key("order:<id>"));
    let _other = locks.semaphore("order:42", 3).acquire().await.unwrap();
    let response = send(&app, get("/orders/42")).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = text(response).await;
    assert!(!body.contains("permit") && !body.contains("order"), "{body}");
}
