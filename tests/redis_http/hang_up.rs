//! A client that goes away.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use lock_axum::LockLayer;
use tokio::sync::Notify;

use crate::client::{Client, VERSIONS, serve};
use crate::stores::Store;

/// What a client that hangs up may cost the next one, at most.
const SOON: Duration = Duration::from_secs(5);

/// The key is free without the handler having come to its end, and without its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_handler_is_dropped_and_the_key_freed() {
    for store in [Store::memory(), Store::far_away(Duration::from_millis(1)).await] {
        for version in VERSIONS {
            let begun = Arc::new(Notify::new());
            let handler = {
                let begun = Arc::clone(&begun);
                async move || {
                    begun.notify_one();
                    std::future::pending::<()>().await;
                }
            };
            let layer = LockLayer::new(store.locks.clone()).key("k").ttl(Duration::from_secs(60));
            let address = serve(Router::new().route("/", post(handler).route_layer(layer))).await;
            let request = tokio::spawn(async move { Client::connect(address, version).await.ask("/").await });
            begun.notified().await;
            assert!(store.locks.lock("k").try_acquire().await.expect("an answer").is_none());
            request.abort();
            let next = store.locks.lock("k").wait(SOON).acquire().await;
            let next = next.unwrap_or_else(|error| panic!("{} {version:?}: {error}", store.name));
            next.release().await.expect("an answer");
        }
    }
}
