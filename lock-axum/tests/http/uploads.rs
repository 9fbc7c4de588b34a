//! Tests clients that send their body slowly, over real connections.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use http::{Request, StatusCode};
use lock_axum::LockLayer;
use lock_core::LockManager;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::is_free;

const LIMIT: usize = 16;

/// Serves a route that answers with the body of the request.
async fn serve(layer: LockLayer) -> SocketAddr {
    let app: Router = Router::new().route("/orders/{id}", post(async |body: String| body).route_layer(layer));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Sends the head of a request and the available part of its body.
async fn begin(address: SocketAddr, how: &str, body: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = format!("POST /orders/7 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{how}\r\n\r\n{body}");
    client.write_all(head.as_bytes()).await.unwrap();
    client
}

/// Returns the status and the body of the answer.
async fn end(mut client: TcpStream) -> (u16, String) {
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[tokio::test]
async fn a_body_that_trickles_in_keeps_nobody_out() {
    let locks = LockManager::in_memory();
    let layer = || LockLayer::new(locks.clone()).key("order:<id:u64>");
    for (layer, expected) in [(layer(), 409), (layer().after_body(LIMIT), 200)] {
        let address = serve(layer).await;
        let mut slow = begin(address, "Content-Length: 5", "s").await;
        if expected == 409 {
            // This is the control: without `after_body`, a client that has sent one byte holds the lock.
            while locks.held() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        for _ in 0..3 {
            let (status, _) = end(begin(address, "Content-Length: 5", "quick").await).await;
            assert_eq!(status, expected);
        }
        slow.write_all(b"low!").await.unwrap();
        assert_eq!(end(slow).await, (200, "slow!".to_owned()));
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_413_and_one_that_breaks_off_leaves_nothing() {
    let locks = LockManager::in_memory();
    let address = serve(LockLayer::new(locks.clone()).key("order:<id:u64>").after_body(LIMIT)).await;
    let fits = "a".repeat(LIMIT);
    for (how, body, status) in [
        ("Content-Length: 16", fits.clone(), 200),
        ("Content-Length: 17", String::new(), 413),
        ("Transfer-Encoding: chunked", format!("10\r\n{fits}\r\n0\r\n\r\n"), 200),
        ("Transfer-Encoding: chunked", format!("10\r\n{fits}\r\n1\r\na\r\n"), 413),
        ("Content-Length: 0", String::new(), 200),
    ] {
        let (found, answer) = end(begin(address, how, &body).await).await;
        assert_eq!(found, status, "{how}: {answer}");
        assert_eq!(answer.contains("lock-body-too-large"), status == 413, "{answer}");
    }
    let broken = begin(address, "Transfer-Encoding: chunked", "not a length\r\n").await;
    let (status, answer) = end(broken).await;
    assert!(status == 400, "{status} {answer}");
    drop(begin(address, "Content-Length: 5", "s").await);
    assert!(is_free(&locks, "order:7").await);
}

#[tokio::test]
async fn a_body_that_is_not_of_axum_is_the_programs_fault() {
    let layer = LockLayer::new(LockManager::in_memory()).key("job").after_body(LIMIT);
    let service = layer.layer(service_fn(async |request: Request<String>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(request.into_body()))
    }));
    let answer = service.oneshot(Request::new("hello".to_owned())).await.unwrap();
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
}
