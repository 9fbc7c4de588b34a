//! A client that sends its requests in sequence is never refused by its own lock.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::middleware;
use axum::response::Response;
use axum::routing::post;
use http::StatusCode;
use lock_axum::{Hold, LockLayer};
use lock_core::{LockGuard, LockManager, Release};
use lock_tests::Flow;

use crate::client::{Client, VERSIONS, Version, serve, stream_of};
use crate::stores::Store;

const REQUESTS: usize = 200;
/// A delay that is longer than the one to another zone of the same cloud.
const EACH_WAY: Duration = Duration::from_micros(2_500);

/// Returns how many of the requests for one key were refused.
async fn refused(app: Router, version: Version, path: &str) -> usize {
    let mut client = Client::connect(serve(app).await, version).await;
    let mut refused = 0;
    for _ in 0..REQUESTS {
        match client.ask(path).await {
            StatusCode::OK => {}
            StatusCode::CONFLICT => refused += 1,
            other => panic!("unexpected status {other}"),
        }
    }
    refused
}

fn locked(locks: &LockManager, hold: Hold, release: Release) -> Router {
    let layer = LockLayer::new(locks.clone()).key("k:<id>").hold(hold).release(release);
    Router::new()
        .route("/buffered/{id}", post(async || "served"))
        .route("/stream/{id}", post(async || stream_of(["ser", "v", "ed"])))
        .route("/empty/{id}", post(async || ()))
        .route_layer(layer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_hold_over_every_protocol_and_store() {
    let stores = [Store::memory(), Store::far_away(EACH_WAY).await];
    let mut clients = Vec::new();
    for store in &stores {
        for hold in [Hold::Auto, Hold::Handler, Hold::Body] {
            for version in VERSIONS {
                for (body, release) in [
                    ("buffered", Release::Await),
                    ("stream", Release::Await),
                    ("empty", Release::Await),
                    ("buffered", Release::Background),
                    ("stream", Release::Background),
                ] {
                    let what = format!("{}, {hold:?}, {version:?}, {body}, {release:?}", store.name);
                    // Each client has its own key, because the clients run concurrently.
                    let app = locked(&store.locks, hold, release);
                    let path = format!("/{body}/{}", clients.len());
                    clients.push((what, tokio::spawn(async move { refused(app, version, &path).await })));
                }
            }
        }
    }
    for (what, client) in clients {
        assert_eq!(client.await.expect("no panic"), 0, "{what}");
    }
}

/// The store's reply to the release is held back. The server answers the client nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_need_not_wait_for_the_release() {
    for path in ["/buffered/7", "/stream/7"] {
        assert!(!is_answered_without_the_store(Release::Await, path).await, "{path}");
        // A busy machine may be late many times.
        let mut is_answered = false;
        for _ in 0..10 {
            is_answered = is_answered || is_answered_without_the_store(Release::Background, path).await;
        }
        assert!(is_answered, "{path}");
    }
}

async fn is_answered_without_the_store(release: Release, path: &str) -> bool {
    let store = Store::far_away(Duration::ZERO).await;
    let proxy = store.proxy();
    let holding = Arc::clone(&proxy);
    let layer = LockLayer::new(store.locks.clone()).key("k:<id>").release(release);
    let app = Router::new()
        .route("/buffered/{id}", post(async || "served"))
        .route("/stream/{id}", post(async || stream_of(["ser", "v", "ed"])))
        .route_layer(middleware::map_response(move |response: Response| {
            // The lock is held here. From now on the store's replies are held back.
            holding.replies(Flow::Hold);
            std::future::ready(response)
        }))
        .route_layer(layer);
    let mut client = Client::connect(serve(app).await, Version::Http1).await;
    // The limit is less than a second. After a second, a connection without answers is closed, and its calls fail.
    let answer = tokio::time::timeout(Duration::from_millis(600), client.ask(path)).await;
    proxy.heal();
    answer.is_ok()
}

/// Returns a route that answers once `end` has got the guard of the lock.
fn handled(locks: &LockManager, end: fn(LockGuard)) -> Router {
    let locks = locks.clone();
    let handler = move |Path(id): Path<String>| async move {
        match locks.lock(id).try_acquire().await.expect("an answer") {
            Some(guard) => {
                end(guard);
                StatusCode::OK
            }
            None => StatusCode::CONFLICT,
        }
    };
    Router::new().route("/{id}", post(handler))
}

/// A dropped guard releases its key in the background. The next request follows the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_request_follows_a_release_that_nobody_awaits() {
    let store = Store::far_away(EACH_WAY).await;
    assert_eq!(refused(handled(&store.locks, drop), Version::Http1, "/k").await, 0);
}

/// This is the control: a lock that outlives its answer refuses the next request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_outlives_its_answer_is_met_by_the_next_request() {
    let store = Store::far_away(EACH_WAY).await;
    let later = |guard: LockGuard| {
        tokio::spawn(async move {
            tokio::time::sleep(EACH_WAY * 20).await;
            drop(guard);
        });
    };
    assert!(refused(handled(&store.locks, later), Version::Http1, "/k").await > 0);
}
