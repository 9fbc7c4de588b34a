//! A client that disconnects.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use lock_axum::LockLayer;
use lock_core::LockEvent;
use lock_tests::PATIENCE;
use tokio::sync::Notify;

use crate::client::{Client, VERSIONS, serve};
use crate::stores::Store;

/// The time limit for events that must happen. It also is a lease that no test outlives.
const LATE: Duration = PATIENCE;
const TTL: Duration = Duration::from_secs(600);

/// The handler never completes, and the lease does not expire. Only a release can free the key for the next request.
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
            let layer = LockLayer::new(store.locks.clone()).key("k").ttl(TTL);
            let mut events = store.locks.events();
            let address = serve(Router::new().route("/", post(handler).route_layer(layer))).await;
            let request = tokio::spawn(async move { Client::connect(address, version).await.ask("/").await });
            begun.notified().await;
            assert!(store.locks.lock("k").try_acquire().await.expect("an answer").is_none());
            request.abort();
            let next = store.locks.lock("k").wait(LATE).acquire().await;
            let next = next.unwrap_or_else(|error| panic!("{} {version:?}: {error}", store.name));
            let what = format!("{} {version:?}", store.name);
            assert!(matches!(events.next().await, Some(LockEvent::Granted { .. })), "{what}: the handler");
            assert!(
                matches!(events.next().await, Some(LockEvent::Refused { .. })),
                "{what}: the one that only tries"
            );
            let freed = events.next().await;
            assert!(
                matches!(&freed, Some(LockEvent::Released { held, .. }) if *held < TTL / 2),
                "{what}: {freed:?}"
            );
            assert!(matches!(events.next().await, Some(LockEvent::Granted { .. })), "{what}: the next one");
            next.release().await.expect("an answer");
        }
    }
}
