//! A lock around one service of a gRPC server: one call at a time for each order, while the health check has no lock.
//! `cargo run -p lock-examples --features grpc --example tonic`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "common/plain.rs"]
mod plain;

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use lock_axum::LockLayer;
use lock_core::LockManager;
use tokio::net::TcpListener;
use tonic::service::LayerExt;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tower::Service;

use plain::Plain;

async fn ship(order: Bytes) -> Bytes {
    tokio::time::sleep(Duration::from_millis(100)).await;
    Bytes::from(format!("{} is on its way", String::from_utf8_lossy(&order)))
}

async fn check_health(_: Bytes) -> Bytes {
    Bytes::from_static(b"healthy")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockManager::from_env_or("memory://").await?;
    let layer = LockLayer::new(locks.clone()).key("order:<header.x-order>").grpc().check()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // `named_layer` keeps the name by which the server finds the service. `Server::builder().layer(..)` would lock both
    // services.
    let server = Server::builder().add_service(layer.named_layer(Orders)).add_service(Health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let ship = || call(&channel, "/shop.Orders/Ship", Some("A-7"));
    let (first, second, health) = tokio::join!(ship(), ship(), call(&channel, "/shop.Health/Check", None));
    println!("{first}\n{second}\n{health}");
    locks.shutdown(Duration::from_secs(1)).await;
    let shipped = [&first, &second].iter().filter(|answer| answer.contains("is on its way")).count();
    if shipped == 1 && health == "healthy" {
        Ok(())
    } else {
        Err("one of both is shipped, and the server is healthy".into())
    }
}

async fn call(channel: &Channel, method: &'static str, order: Option<&'static str>) -> String {
    let mut client = tonic::client::Grpc::new(channel.clone());
    let mut request = Request::new(Bytes::from_static(b"order A-7"));
    if let Some(order) = order {
        request.metadata_mut().insert("x-order", order.parse().expect("a header"));
    }
    let ready = client.ready().await.map_err(|error| Status::unavailable(error.to_string()));
    let answer = match ready {
        Ok(()) => client.unary(request, method.parse().expect("a path"), Plain).await,
        Err(status) => Err(status),
    };
    match answer {
        Ok(answer) => String::from_utf8_lossy(answer.get_ref()).into_owned(),
        Err(status) => format!(
            "{:?}, again after {:?} ms",
            status.code(),
            status.metadata().get("grpc-retry-pushback-ms")
        ),
    }
}

/// The code that `tonic-build` generates from a `.proto` file.
macro_rules! service {
    ($type:ident, $name:literal, $method:path) => {
        #[derive(Clone, Copy)]
        struct $type;

        impl tonic::server::NamedService for $type {
            const NAME: &'static str = $name;
        }

        impl tonic::server::UnaryService<Bytes> for $type {
            type Response = Bytes;
            type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Status>> + Send>>;

            fn call(&mut self, request: Request<Bytes>) -> Self::Future {
                Box::pin(async { Ok(Response::new($method(request.into_inner()).await)) })
            }
        }

        impl Service<http::Request<tonic::body::Body>> for $type {
            type Response = http::Response<tonic::body::Body>;
            type Error = Infallible;
            type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
                Box::pin(async { Ok(tonic::server::Grpc::new(Plain).unary(Self, request).await) })
            }
        }
    };
}

service!(Orders, "shop.Orders", ship);
service!(Health, "shop.Health", check_health);
