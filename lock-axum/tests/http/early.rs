//! Tests the calls of a handler on its lock: extend the lease, release it early, and hold it beyond the answer.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::routing::get as on_get;
use http::StatusCode;
use lock_axum::{Hold, LockHandle, LockLayer, OnDisconnect};
use lock_core::{LockManager, Released};
use tokio::sync::{Notify, mpsc};

use crate::bodies::Frames;
use crate::support::{get, is_free, send, text};

#[tokio::test]
async fn others_are_served_while_a_handler_that_has_released_its_lock_goes_on() {
    for on_disconnect in [OnDisconnect::Cancel, OnDisconnect::Finish] {
        let locks = LockManager::in_memory();
        let (released, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let handler = {
            let (released, go_on) = (Arc::clone(&released), Arc::clone(&go_on));
            async move |lock: LockHandle| {
                assert_eq!(lock.release_early().await.unwrap(), Released::Released);
                released.notify_one();
                go_on.notified().await;
                lock.is_held().to_string()
            }
        };
        let layer = LockLayer::new(locks.clone()).key("order:<id>").on_disconnect(on_disconnect);
        let app = Router::new().route("/orders/{id}", on_get(handler).layer(layer));
        let first = tokio::spawn({
            let app = app.clone();
            async move { send(&app, get("/orders/42")).await }
        });
        released.notified().await;
        let other = locks.lock("order:42").try_acquire().await.unwrap().expect("free");
        go_on.notify_one();
        let answer = first.await.unwrap();
        assert_eq!((answer.status(), text(answer).await.as_str()), (StatusCode::OK, "false"));
        assert!(
            other.is_held() && !is_free(&locks, "order:42").await,
            "the end of the request released nothing"
        );
        assert_eq!(locks.held(), 1);
    }
}

#[tokio::test]
async fn a_body_goes_on_after_its_lock_was_released() {
    let locks = LockManager::in_memory();
    let (frames, body) = mpsc::unbounded_channel();
    let body = std::sync::Mutex::new(Some(Frames::new(body)));
    let (body, handle) = (Arc::new(body), Arc::new(std::sync::Mutex::new(None)));
    let handler = {
        let handle = Arc::clone(&handle);
        async move |lock: LockHandle| {
            *handle.lock().unwrap() = Some(lock);
            Body::new(body.lock().unwrap().take().unwrap())
        }
    };
    let layer = LockLayer::new(locks.clone()).key("order:<id>").hold(Hold::Body);
    let app = Router::new().route("/orders/{id}", on_get(handler).layer(layer));
    let answer = send(&app, get("/orders/42")).await;
    frames.send("first ").unwrap();
    let reading = tokio::spawn(to_bytes(answer.into_body(), usize::MAX));
    let lock = handle.lock().unwrap().take().unwrap();
    assert!(lock.is_held());
    lock.release_early().await.unwrap();
    let other = locks.lock("order:42").try_acquire().await.unwrap().expect("free");
    frames.send("second").unwrap();
    drop(frames);
    assert_eq!(reading.await.unwrap().unwrap(), "first second");
    assert!(other.is_held() && !is_free(&locks, "order:42").await);
}

#[tokio::test(start_paused = true)]
async fn a_handler_extends_its_lease() {
    let locks = LockManager::in_memory();
    let handler = async |lock: LockHandle, State(extends): State<bool>| {
        if extends {
            lock.extend(Duration::from_secs(60)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(50)).await;
    };
    for (extends, status) in [(true, StatusCode::OK), (false, StatusCode::SERVICE_UNAVAILABLE)] {
        let layer = LockLayer::new(locks.clone()).key("k").ttl(Duration::from_secs(5)).renew(false);
        let app = Router::new().route("/", on_get(handler).layer(layer)).with_state(extends);
        assert_eq!(send(&app, get("/")).await.status(), status);
    }
}

#[tokio::test]
async fn work_behind_an_answer_holds_the_lock_until_its_end() {
    for status in [StatusCode::ACCEPTED, StatusCode::SWITCHING_PROTOCOLS] {
        for hold in [Hold::Auto, Hold::Handler, Hold::Body] {
            let locks = LockManager::in_memory();
            let (go_on, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let handler = {
                let (go_on, done) = (Arc::clone(&go_on), Arc::clone(&done));
                async move |lock: LockHandle| {
                    let guard = lock.to_guard().unwrap();
                    let (go_on, done) = (Arc::clone(&go_on), Arc::clone(&done));
                    tokio::spawn(async move {
                        guard.run(go_on.notified()).await.unwrap();
                        assert_eq!(guard.release().await.unwrap(), Released::Released);
                        done.notify_one();
                    });
                    status
                }
            };
            let layer = LockLayer::new(locks.clone()).key("import:<id>").hold(hold);
            let app = Router::new().route("/imports/{id}", on_get(handler).layer(layer));
            assert_eq!(send(&app, get("/imports/7")).await.status(), status);
            for _ in 0..3 {
                assert_eq!(send(&app, get("/imports/7")).await.status(), StatusCode::CONFLICT);
            }
            go_on.notify_one();
            done.notified().await;
            assert!(is_free(&locks, "import:7").await);
            assert_eq!(locks.held(), 0);
        }
    }
}
