//! The layer on a bare hyper server, without axum.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use lock_axum::{LockHandle, LockLayer};
use lock_core::LockManager;
use tokio::net::TcpListener;
use tower::{Layer, service_fn};

use crate::client::{Client, VERSIONS};
use crate::stores::Store;

#[tokio::test]
async fn a_service_function_is_served_under_its_lock() {
    for store in [Store::memory(), Store::far_away(Duration::from_millis(1)).await] {
        is_served_under_its_lock(&store.locks).await;
    }
}

async fn is_served_under_its_lock(locks: &LockManager) {
    let layer = LockLayer::new(locks.clone()).key("job:<method>");
    let service = layer.layer(service_fn(async |request: Request<Incoming>| {
        let held = request.extensions().get::<LockHandle>().is_some_and(|lock| lock.is_held());
        assert!(held, "the handler runs under its lock");
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"done"))))
    }));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a client");
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                server
                    .serve_connection(TokioIo::new(stream), service)
                    .await
                    .map_err(|error| error.to_string())
            });
        }
    });
    for version in VERSIONS {
        let mut client = Client::connect(address, version).await;
        assert_eq!(client.ask("/").await, StatusCode::OK, "{version:?}");
        let busy = locks.lock("job:POST").acquire().await.expect("free");
        assert_eq!(client.ask("/").await, StatusCode::CONFLICT, "{version:?}");
        busy.release().await.expect("an answer");
        assert_eq!(client.ask("/").await, StatusCode::OK, "{version:?}");
    }
}
