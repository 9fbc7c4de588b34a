//! Tests contradictory options: `check` reports them, and a server without `check` survives them.

use std::time::Duration;

use axum::Router;
use axum::routing::{get as on_get, post};
use http::request::Parts;
use http::{Method, StatusCode};
use lock_axum::{KeyChoice, LockLayer, NoKeyYet, Outcome};
use lock_core::backend::memory::Memory;
use lock_core::{Kind, LockErrorKind, LockManager, Profile, strategy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, ServiceBuilder};

use crate::logs::capture;
use crate::support::{Remote, request, send, text};

const SECOND: Duration = Duration::from_secs(1);

fn new() -> LockLayer<NoKeyYet> {
    LockLayer::new(LockManager::in_memory())
}

/// Returns layers with contradictory options, each with a part of its error.
fn contradictions() -> Vec<(LockLayer, &'static str)> {
    let layer = || new().key("k");
    let patient = Profile::new().strategy(strategy::wait());
    let profiled =
        LockManager::builder(Memory::new()).profile("patient", patient).build().expect("a manager");
    let two = LockManager::builder(Memory::new()).max_keys(2).build().expect("a manager");
    vec![
        (layer().profile("chekout"), "profile `chekout` is not there"),
        (layer().strategy(strategy::fail_fast()).wait(SECOND), "strategy `fail_fast` takes no limit"),
        (LockLayer::new(profiled).key("k").profile("patient").wait(SECOND), "takes no limit"),
        (
            new().key(&"long".repeat(200)).strategy(strategy::skip()).wait(SECOND),
            "strategy `skip` takes no limit",
        ),
        (layer().max_waiters(0), "max_waiters is 0"),
        (layer().strategy(strategy::fail_fast()).max_waiters(3), "but no request waits: add `wait`"),
        (layer().max_waiters(5), "max_waiters is 5, but no request waits: add `wait`"),
        (layer().ttl(Duration::ZERO), "ttl is 0"),
        (layer().kind(Kind::Semaphore { permits: 0 }), "0 permits"),
        (
            layer().kind(Kind::Semaphore { permits: 3 }).take(0),
            "take is 0: a request takes at least 1 permit",
        ),
        (layer().kind(Kind::Semaphore { permits: 3 }).take(4), "take is 4, and the semaphore has 3 permits"),
        (layer().take(2), "take is 2, and a lock of kind reentrant has no permits"),
        (layer().kind(Kind::Fair).take(2), "take is 2, and a lock of kind fair has no permits"),
        (new().keys(["a", "b"]).take(2), "take is 2"),
        (new().keys(["a", "b"]).kind(Kind::Fair), "kind is fair, but several keys"),
        (layer().min_hold(2 * SECOND).max_hold(SECOND), "min_hold is 2s, longer than max_hold 1s"),
        (layer().kind(Kind::Fair).linger(SECOND / 200), "linger is 5ms, and a lock of kind fair cannot"),
        (new().keys(["a", "b"]).linger(SECOND / 200), "linger is 5ms, and a lock of several keys cannot"),
        (layer().renew(false).renew_every(SECOND), "renew_every is 1s, but the lease is not renewed"),
        (layer().methods([]), "`methods` is empty"),
        (layer().max_keys(0), "max_keys is 0"),
        (new().keys(["a", "b"]).max_keys(1), "max_keys is 1, but each request locks up to 2"),
        (
            new().keys((0..101).map(|i| format!("part{i}:<id>"))),
            "101 keys were asked for at once, and 100 are allowed",
        ),
        (LockLayer::new(two).keys(["a", "b", "c"]), "3 keys were asked for at once, and 2 are allowed"),
        (new().key_fn("", |_: &Parts| KeyChoice::Skip), "the name of the `key_fn` is empty"),
        (layer().after_body(0), "after_body is 0"),
        (layer().status(Outcome::Lost, StatusCode::OK), "status 200 OK for Lost"),
        (layer().status(Outcome::Misconfigured, StatusCode::OK), "status 200 OK for Misconfigured"),
        (layer().grpc().locked(), "remove `status` or `grpc`"),
        (layer().grpc().respond_with(|_, _| "no"), "`grpc` and `respond_with` both make the answers"),
        (layer().respond_with(|_, _| "no").grpc(), "`grpc` and `respond_with` both make the answers"),
        (LockLayer::new(Remote::default().manager()).key("k").kind(Kind::Fair), "no fair locks"),
    ]
}

/// Sends a request on a separate connection. Returns the status, or `None` if the server has ended.
async fn ask(address: std::net::SocketAddr, method: Method, path: &str) -> Option<u16> {
    let mut client = TcpStream::connect(address).await.ok()?;
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    client.write_all(head.as_bytes()).await.ok()?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[tokio::test]
async fn a_contradiction_ends_no_server_and_is_told_once() {
    for (layer, says) in contradictions() {
        let (log, _capturing) = capture();
        let app: Router = Router::new()
            .route("/orders/{id}", post(async || "paid").route_layer(layer))
            .route("/health", on_get(async || "well"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, app).await });
        for _ in 0..2 {
            assert_eq!(ask(address, Method::GET, "/health").await, Some(200), "{says}");
            assert_eq!(ask(address, Method::POST, "/orders/1").await, Some(500), "{says}");
        }
        assert!(!server.is_finished(), "{says}");
        server.abort();
        let lines = log.all();
        assert_eq!(lines.len(), 1, "{says}: {lines:?}");
        assert!(lines[0].starts_with("ERROR") && lines[0].contains(says), "{says}: {lines:?}");
    }
}

#[tokio::test]
async fn a_contradiction_is_a_500_wherever_the_layer_is_mounted() {
    for (layer, says) in contradictions() {
        let handler = || post(async || "paid");
        let route = || Router::new().route("/orders", handler());
        let apps: [Router; 6] = [
            Router::new().route("/orders", handler().layer(layer.clone())),
            Router::new().route("/orders", handler().route_layer(layer.clone())).with_state(()),
            route().layer(layer.clone()),
            route().route_layer(layer.clone()),
            route().layer(ServiceBuilder::new().layer(layer.clone())),
            Router::new().fallback_service(layer.layer(route())),
        ];
        for app in apps {
            let answer = send(&app, request(Method::POST, "/orders")).await;
            assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "{says}");
            let body = text(answer).await;
            assert!(!body.contains(says) && !body.contains("\"lock\""), "the client is told nothing: {body}");
        }
    }
}

#[test]
fn contradictions_are_found_by_the_check() {
    for (layer, says) in contradictions() {
        let error = layer.check().expect_err(says);
        assert!(error.to_string().contains(says), "{error}");
        let expected = [LockErrorKind::InvalidRequest, LockErrorKind::Unsupported];
        assert!(expected.contains(&error.kind()), "{error:?}");
    }
    assert!(new().key("order:<id>").wait(SECOND).max_waiters(5).check().is_ok());
    assert!(new().keys((0..100).map(|i| format!("part{i}:<id>"))).check().is_ok());
}
