//! Locks that are lost while a handler runs, on a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use http::StatusCode;
use lock_axum::LockLayer;
use lock_core::{LockEvent, LockManager, LossReason};
use lock_tests::{PATIENCE, RedisServer};
use tokio::sync::Notify;

use crate::client::{Client, VERSIONS, serve};

/// The time limit for events that must happen.
const LATE: Duration = PATIENCE;

/// A handler that never ends, and counts how often it was dropped.
#[derive(Clone, Default)]
struct Stuck {
    begun: Arc<Notify>,
    dropped: Arc<AtomicUsize>,
}

struct OnDrop(Arc<AtomicUsize>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Stuck {
    fn app(&self, locks: &LockManager) -> Router {
        let stuck = self.clone();
        let handler = async move || {
            let _local = OnDrop(stuck.dropped);
            stuck.begun.notify_one();
            std::future::pending::<()>().await;
        };
        let layer = LockLayer::new(locks.clone()).key("k").ttl(Duration::from_millis(900));
        Router::new().route("/", post(handler).route_layer(layer))
    }
}

async fn connect(server: &RedisServer) -> LockManager {
    LockManager::connect(&server.url()).await.expect("the server takes locks")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_deleted_under_a_handler_ends_it_with_503() {
    let server = RedisServer::start();
    let locks = connect(&server).await;
    for version in VERSIONS {
        let (stuck, mut events) = (Stuck::default(), locks.events());
        let address = serve(stuck.app(&locks)).await;
        let request = tokio::spawn(async move { Client::connect(address, version).await.ask("/").await });
        tokio::time::timeout(LATE, stuck.begun.notified()).await.expect("the handler begins");
        assert_eq!(server.get::<i64>(&["DEL", "k"]), 1);
        let status = tokio::time::timeout(LATE, request).await.expect("not stuck").expect("no panic");
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{version:?}");
        assert_eq!(stuck.dropped.load(Ordering::SeqCst), 1, "dropped before the answer");
        assert!(matches!(events.next().await, Some(LockEvent::Granted { .. })));
        let mut lost = events.next().await;
        // On a busy machine a renewal may be late.
        while matches!(lost, Some(LockEvent::Endangered { .. })) {
            lost = events.next().await;
        }
        let reason = LossReason::Taken;
        assert!(matches!(&lost, Some(LockEvent::Lost { reason: why, .. }) if *why == reason), "{lost:?}");
        // Another process may acquire the lock. The first process does not affect it any more.
        let other = connect(&server).await;
        let guard = other.lock("k").try_acquire().await.expect("an answer").expect("free");
        assert_eq!(Client::connect(address, version).await.ask("/").await, StatusCode::CONFLICT);
        guard.release().await.expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_under_a_handler_ends_it_with_503_and_serves_again_after_its_restart() {
    let mut server = RedisServer::start();
    let locks = connect(&server).await;
    for version in VERSIONS {
        let (stuck, mut events) = (Stuck::default(), locks.events());
        let address = serve(stuck.app(&locks)).await;
        let request = tokio::spawn(async move { Client::connect(address, version).await.ask("/").await });
        tokio::time::timeout(LATE, stuck.begun.notified()).await.expect("the handler begins");
        server.kill9();
        let status = tokio::time::timeout(LATE, request).await.expect("not stuck").expect("no panic");
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{version:?}");
        assert_eq!(stuck.dropped.load(Ordering::SeqCst), 1, "dropped before the answer");
        let mut told = Vec::new();
        while !matches!(told.last(), Some(LockEvent::Lost { .. })) {
            told.push(events.next().await.expect("the manager is open"));
        }
        let expired =
            |event: &LockEvent| matches!(event, LockEvent::Lost { reason: LossReason::Expired, .. });
        assert!(told.iter().any(expired), "{told:?}");
        // While the server is down, no handler runs without the lock.
        assert_eq!(Client::connect(address, version).await.ask("/").await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(stuck.dropped.load(Ordering::SeqCst), 1, "not run");
        server.restart();
        let again = tokio::time::timeout(LATE, async {
            loop {
                let request =
                    tokio::spawn(async move { Client::connect(address, version).await.ask("/").await });
                let abort = request.abort_handle();
                tokio::select! {
                    () = stuck.begun.notified() => return abort.abort(),
                    // Requests are refused until the connection is established again.
                    status = request => assert_eq!(status.expect("no panic"), StatusCode::SERVICE_UNAVAILABLE),
                }
            }
        });
        again.await.expect("served again");
        // The next round begins when the aborted request has released its lock.
        let free = locks.lock("k").wait(LATE).acquire().await.expect("free");
        free.release().await.expect("an answer");
    }
}
