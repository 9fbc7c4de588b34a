//! The layer in front of a gRPC service, with a real tonic server and client.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use lock_axum::LockLayer;
use lock_core::LockManager;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tower::Service;

use crate::plain::Plain;
use crate::stores::Store;

/// A service that echoes its input.
#[derive(Clone, Copy)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = std::future::Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        std::future::ready(Ok(Response::new(request.into_inner())))
    }
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move { Ok(tonic::server::Grpc::new(Plain).unary(Self, request).await) })
    }
}

/// Starts a server with `layer`, and returns a channel to it.
async fn connect(layer: LockLayer) -> Channel {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = Server::builder().layer(layer).add_service(Echo);
    tokio::spawn(server.serve_with_incoming(incoming));
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a URL");
    endpoint.connect().await.expect("the server listens")
}

async fn call(channel: &Channel, order: Option<&'static str>) -> Result<Bytes, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.expect("an open connection");
    let mut request = Request::new(Bytes::from_static(b"hello"));
    if let Some(order) = order {
        request.metadata_mut().insert("x-order", order.parse().expect("a header"));
    }
    let path = PathAndQuery::from_static("/test.Echo/Say");
    client.unary(request, path, Plain).await.map(Response::into_inner)
}

#[tokio::test]
async fn a_refusal_is_a_status_that_the_client_understands() {
    for store in [Store::memory(), Store::far_away(Duration::from_millis(1)).await] {
        a_refusal_is_understood(&store.locks).await;
    }
}

async fn a_refusal_is_understood(locks: &LockManager) {
    let layer = LockLayer::new(locks.clone()).key("order:<header.x-order>").grpc();
    let channel = connect(layer).await;
    assert_eq!(call(&channel, Some("7")).await.expect("an answer"), "hello");

    let busy = locks.lock("order:7").acquire().await.expect("free");
    let status = call(&channel, Some("7")).await.expect_err("held");
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert!(!status.message().is_empty(), "{status:?}");
    assert_eq!(call(&channel, Some("8")).await.expect("another key"), "hello");
    busy.release().await.expect("an answer");
    assert_eq!(call(&channel, Some("7")).await.expect("free again"), "hello");

    let status = call(&channel, None).await.expect_err("no header");
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let _ = locks.shutdown(Duration::ZERO).await;
    let status = call(&channel, Some("7")).await.expect_err("closed");
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}
