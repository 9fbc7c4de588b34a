//! Sends requests to a console, and reads the events of its stream.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Method, Request, Response, StatusCode};
use lock_axum::console::{Console, Viewers};
use lock_core::LockManager;
use serde_json::Value;
use tower::ServiceExt;

/// Each path of the console, and the method for it.
pub(crate) const PATHS: [(Method, &str); 7] = [
    (Method::GET, "/"),
    (Method::GET, "/console.js"),
    (Method::GET, "/console.css"),
    (Method::GET, "/api/state"),
    (Method::GET, "/api/doctor"),
    (Method::GET, "/api/events"),
    (Method::POST, "/api/force-release"),
];

pub(crate) fn read_only(locks: &LockManager) -> Router {
    Console::new(locks.clone(), Viewers::everyone()).into_router()
}

pub(crate) fn with_actions(locks: &LockManager) -> Router {
    let operator = |_: &http::request::Parts| Some("ann".to_owned());
    Console::new(locks.clone(), Viewers::everyone()).allow_actions(operator).into_router()
}

/// Returns a request with the header that the script of the page sends.
pub(crate) fn request(method: &Method, path: &str) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("x-lock-console", "1")
        .body(Body::empty())
        .expect("a request")
}

pub(crate) async fn send(app: &Router, request: Request<Body>) -> Response<Body> {
    app.clone().oneshot(request).await.expect("a router does not fail")
}

pub(crate) async fn get(app: &Router, path: &str) -> Response<Body> {
    send(app, request(&Method::GET, path)).await
}

pub(crate) async fn text(response: Response<Body>) -> String {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    String::from_utf8(bytes.to_vec()).expect("text")
}

pub(crate) async fn json(response: Response<Body>) -> Value {
    serde_json::from_str(&text(response).await).expect("JSON")
}

/// Returns the data at `path`.
pub(crate) async fn data(app: &Router, path: &str) -> Value {
    let response = get(app, path).await;
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    json(response).await
}

/// An open stream of events.
pub(crate) struct Stream(Body);

impl Stream {
    pub(crate) async fn open(app: &Router, path: &str) -> Self {
        let response = get(app, path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self(response.into_body())
    }

    /// Returns the next part, or `None` at the end.
    pub(crate) async fn part(&mut self) -> Option<String> {
        let next =
            std::future::poll_fn(|cx| http_body::Body::poll_frame(std::pin::Pin::new(&mut self.0), cx));
        let frame = tokio::time::timeout(Duration::from_secs(60), next).await.expect("a part in time")?;
        let bytes = frame.expect("no failure").into_data().expect("data");
        Some(String::from_utf8(bytes.to_vec()).expect("text"))
    }

    /// Returns the next state, or `None` at the end.
    pub(crate) async fn state(&mut self) -> Option<Value> {
        loop {
            let part = self.part().await?;
            if let Some((_, data)) = part.split_once("event: state\ndata: ") {
                return Some(serde_json::from_str(data).expect("JSON"));
            }
        }
    }

    /// Returns the first state for which `holds`.
    pub(crate) async fn until(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let state = self.state().await.expect("the stream goes on");
            if holds(&state) {
                return state;
            }
        }
    }
}

/// Advances the paused clock by `seconds`.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
