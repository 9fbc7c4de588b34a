//! Tests the options of a layer for disconnected clients, lost locks and failed stores.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::{MethodRouter, get as on_get};
use http::StatusCode;
use http::header::RETRY_AFTER;
use lock_axum::{FencingToken, Hold, LockHandle, LockLayer, OnDisconnect, OnStoreError};
use lock_core::{LockEvent, LockManager, OnLost};
use tokio::sync::{Notify, mpsc};

use crate::bodies::Frames;
use crate::support::{Log, OnDrop, Remote, get, is_free, send, text, until};

/// Returns a handler that signals its start, continues on demand, and records its end and its drop.
fn noted(log: &Log) -> (MethodRouter, Arc<Notify>, Arc<Notify>) {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (log, begun, go) = (log.clone(), Arc::clone(&begun), Arc::clone(&go));
        async move || {
            let _local = OnDrop(log.clone(), "dropped");
            begun.notify_one();
            go.notified().await;
            log.add("finished");
        }
    };
    (on_get(handler), begun, go)
}

#[tokio::test]
async fn a_handler_finishes_without_its_client_and_holds_the_lock_until_then() {
    let (locks, log) = (LockManager::in_memory(), Log::default());
    let (handler, begun, go) = noted(&log);
    let layer = LockLayer::new(locks.clone()).key("order:<id>").on_disconnect(OnDisconnect::Finish);
    let app = Router::new().route("/orders/{id}", handler.layer(layer));
    let client = tokio::spawn(async move { send(&app, get("/orders/7")).await });
    begun.notified().await;
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    assert!(!is_free(&locks, "order:7").await, "it is still at work");
    assert!(log.all().is_empty());
    go.notify_one();
    until(|| locks.held() == 0).await;
    assert_eq!(log.all(), ["finished", "dropped"]);
    assert!(is_free(&locks, "order:7").await);
}

#[tokio::test]
async fn a_request_that_waits_for_its_lock_is_dropped_with_its_client() {
    let (locks, log) = (LockManager::in_memory(), Log::default());
    let (handler, _, _) = noted(&log);
    let layer = LockLayer::new(locks.clone()).key("k").on_disconnect(OnDisconnect::Finish);
    let app = Router::new().route("/", handler.layer(layer.wait(Duration::from_secs(600))));
    let busy = locks.lock("k").acquire().await.unwrap();
    let client = tokio::spawn(async move { send(&app, get("/")).await });
    tokio::task::yield_now().await;
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    busy.release().await.unwrap();
    assert!(is_free(&locks, "k").await, "nobody takes it any more");
    assert!(log.all().is_empty());
}

#[tokio::test]
async fn a_detached_handler_answers_panics_and_enters_its_locks_as_any_other() {
    let locks = LockManager::in_memory();
    let handler = {
        let locks = locks.clone();
        async move || {
            // The handler reenters the locks of both layers.
            for key in ["outer", "inner"] {
                assert!(locks.lock(key).try_acquire().await.unwrap().is_some(), "{key}");
            }
            "served"
        }
    };
    let layer = |key| LockLayer::new(locks.clone()).key(key).on_disconnect(OnDisconnect::Finish);
    let panics = async || -> &'static str { panic!("the handler broke") };
    let app = Router::new()
        .route("/", on_get(handler).layer(layer("inner")))
        .route("/panic", on_get(panics).layer(layer("inner")))
        .layer(layer("outer"));
    assert_eq!(text(send(&app, get("/")).await).await, "served");
    let broken = tokio::spawn(async move { send(&app, get("/panic")).await });
    assert!(broken.await.unwrap_err().is_panic(), "as without the layer");
    until(|| locks.held() == 0).await;
    assert!(is_free(&locks, "inner").await && is_free(&locks, "outer").await);
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_finish_after_its_lock_is_lost_and_the_client_is_told() {
    let (locks, log) = (LockManager::in_memory(), Log::default());
    let handler = {
        let log = log.clone();
        async move || {
            tokio::time::sleep(Duration::from_secs(60)).await;
            log.add("finished");
        }
    };
    let layer = LockLayer::new(locks).key("k").max_hold(Duration::from_secs(1)).on_lost(OnLost::Finish);
    let app = Router::new().route("/", on_get(handler).layer(layer));
    let answer = send(&app, get("/")).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(!answer.headers().contains_key(RETRY_AFTER));
    assert!(text(answer).await.contains("lock-lost"));
    assert_eq!(log.all(), ["finished"]);
}

#[tokio::test(start_paused = true)]
async fn a_body_may_be_sent_to_its_end_after_its_lock_is_lost() {
    let locks = LockManager::in_memory();
    let (frames, body) = mpsc::unbounded_channel();
    let body = Arc::new(std::sync::Mutex::new(Some(Frames::new(body))));
    let handler = async move || Body::new(body.lock().unwrap().take().unwrap());
    let layer = LockLayer::new(locks).key("k").max_hold(Duration::from_secs(1)).hold(Hold::Body);
    let app = Router::new().route("/", on_get(handler).layer(layer.on_lost(OnLost::Finish)));
    let answer = send(&app, get("/")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    frames.send("whole").unwrap();
    drop(frames);
    assert_eq!(text(answer).await, "whole");
}

#[tokio::test]
async fn a_request_runs_unlocked_only_while_the_store_is_down() {
    let store = Remote::default();
    let layer = LockLayer::new(store.manager()).key("k").on_store_error(OnStoreError::RunUnlocked);
    let handler = async |lock: Option<LockHandle>| if lock.is_some() { "locked" } else { "unlocked" };
    let needs = async |_: LockHandle| "locked";
    let app = Router::new().route("/", on_get(handler)).route("/needs", on_get(needs)).layer(layer);
    assert_eq!(text(send(&app, get("/")).await).await, "locked");
    let busy = store.manager().lock("k").acquire().await.unwrap();
    assert_eq!(send(&app, get("/")).await.status(), StatusCode::CONFLICT, "a key that is held is no failure");
    busy.release().await.unwrap();
    store.down.store(true, Ordering::Relaxed);
    assert_eq!(text(send(&app, get("/")).await).await, "unlocked");
    let refused = send(&app, get("/needs")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(text(refused).await.contains("lock-store-unavailable"));
    store.down.store(false, Ordering::Relaxed);
    assert_eq!(text(send(&app, get("/needs")).await).await, "locked");
}

#[tokio::test]
async fn what_runs_unlocked_is_counted_by_its_template() {
    let store = Remote::default();
    store.down.store(true, Ordering::Relaxed);
    let locks = store.manager();
    let mut events = locks.events();
    let layer = LockLayer::new(locks).key("order:<id>").on_store_error(OnStoreError::RunUnlocked);
    let app = Router::new().route("/orders/{id}", on_get(async || "served").layer(layer));
    assert_eq!(send(&app, get("/orders/7")).await.status(), StatusCode::OK);
    let counted = async {
        loop {
            if let Some(LockEvent::Bypassed { template, .. }) = events.next().await {
                return template;
            }
        }
    };
    let template = tokio::time::timeout(Duration::from_secs(60), counted).await.expect("it is counted");
    assert_eq!(&*template, "order:<id>");
}

#[tokio::test]
async fn a_request_that_runs_unlocked_does_not_show_the_lock_of_a_layer_outside() {
    let (up, down) = (LockManager::in_memory(), Remote::default());
    down.down.store(true, Ordering::Relaxed);
    let inner = LockLayer::new(down.manager()).key("inner").on_store_error(OnStoreError::RunUnlocked);
    let handler =
        async |lock: Option<LockHandle>| lock.map_or("none".to_owned(), |lock| lock.key().to_owned());
    let app = Router::new().route("/", on_get(handler).layer(inner)).layer(LockLayer::new(up).key("outer"));
    assert_eq!(text(send(&app, get("/")).await).await, "none");
}

#[tokio::test]
async fn the_fencing_token_comes_with_the_lock_where_that_is_asked_for() {
    let store = Remote::default();
    // This store has no tokens, and the layer requests none.
    let layer = LockLayer::new(store.manager()).key("k");
    let app = Router::new().route("/", on_get(async || "served").layer(layer));
    assert_eq!(send(&app, get("/")).await.status(), StatusCode::OK);
    let layer = LockLayer::new(LockManager::in_memory()).key("k").fencing(true);
    let token = async |FencingToken(token): FencingToken| token.to_string();
    let app = Router::new().route("/", on_get(token).layer(layer));
    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(text(send(&app, get("/")).await).await.parse::<u64>().unwrap());
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}
