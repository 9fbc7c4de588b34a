//! Answers with a declared length, followed by trailers.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_LENGTH;
use axum::routing::post;
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lock_axum::{Hold, LockLayer};
use lock_core::LockManager;
use tokio::net::TcpStream;

use crate::client::serve;

/// Returns the whole body at once, and the trailers some time later.
async fn late_trailers() -> ([(http::HeaderName, &'static str); 1], Body) {
    let (mut sender, body) = http_body_util::channel::Channel::<Bytes>::new(1);
    tokio::spawn(async move {
        sender.send_data(Bytes::from_static(b"done")).await.expect("a reader");
        // The pause is long enough for a poll for the trailers that finds none.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let sum =
            HeaderMap::from_iter([(http::HeaderName::from_static("x-sum"), HeaderValue::from_static("7"))]);
        // The send fails if the trailers were dropped unread. The test checks this.
        let _ = sender.send_trailers(sum).await;
    });
    ([(CONTENT_LENGTH, "4")], Body::new(body))
}

#[tokio::test]
async fn late_trailers_arrive_over_http_2_and_the_lock_is_held_until_then() {
    let locks = LockManager::in_memory();
    for hold in [Hold::Handler, Hold::Auto, Hold::Body] {
        let layer = LockLayer::new(locks.clone()).key("k").hold(hold);
        let address = serve(Router::new().route("/", post(late_trailers).route_layer(layer))).await;
        let stream = TokioIo::new(TcpStream::connect(address).await.expect("the server listens"));
        let (mut client, connection) = http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let request =
            Request::post(format!("http://{address}/")).body(Empty::<Bytes>::new()).expect("a request");
        let answer = client.send_request(request).await.expect("an answer").into_body();
        let whole = answer.collect().await.expect("a whole body");
        let sum = whole.trailers().and_then(|trailers| trailers.get("x-sum")).cloned();
        assert_eq!(sum, Some(HeaderValue::from_static("7")), "{hold:?}");
        assert_eq!(whole.to_bytes(), "done", "{hold:?}");
        assert!(locks.lock("k").try_acquire().await.expect("an answer").is_some(), "{hold:?}: given back");
    }
}
