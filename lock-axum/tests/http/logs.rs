//! Tests the log messages about refusals whose answer states no reason.

use std::fmt::{Debug, Write};
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use http::request::Parts;
use http::{Request, StatusCode};
use lock_axum::{FencingToken, LockHandle, LockLayer, OnNoRoute, OnStoreError};
use lock_core::LockManager;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::support::{Log, Remote, get, send};

/// Collects the messages of this level and above, with their fields.
struct Capture(Log, Level);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.1
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.add(line.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

pub(crate) fn capture() -> (Log, tracing::subscriber::DefaultGuard) {
    capture_at(Level::WARN)
}

fn capture_at(level: Level) -> (Log, tracing::subscriber::DefaultGuard) {
    // With only one subscriber, a test without a subscriber can reach a call site first and disable it for all tests.
    static OTHERS: LazyLock<[Dispatch; 2]> =
        LazyLock::new(|| [(); 2].map(|()| Dispatch::new(Capture(Log::default(), Level::TRACE))));
    LazyLock::force(&OTHERS);
    let log = Log::default();
    (log.clone(), tracing::subscriber::set_default(Capture(log, level)))
}

#[tokio::test]
async fn a_missing_layer_is_named_with_its_route() {
    // The process logs each route once, so no other test may use this route.
    let app = Router::new().route("/forgotten/{id}", on_get(async |_lock: LockHandle| ""));
    let (log, _capturing) = capture();
    for _ in 0..3 {
        assert_eq!(send(&app, get("/forgotten/42")).await.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
    let lines = log.all();
    assert!(
        lines.len() == 1 && lines[0].contains("add a `LockLayer` to the route `/forgotten/{id}`"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_missing_parameter_is_told_once_with_those_that_there_are() {
    let layer = LockLayer::new(LockManager::in_memory()).key("order:<id>");
    let app = Router::new().route("/t/{tenant}/orders/{order}", on_get(async || "").layer(layer));
    let (log, _capturing) = capture();
    for _ in 0..3 {
        send(&app, get("/t/acme/orders/42")).await;
    }
    let lines = log.all();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("ERROR") && lines[0].contains("no parameter `id`; it has `tenant`, `order`"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_nested_service_that_passes_unlocked_is_told_and_a_404_is_not() {
    let service = Router::<()>::new().route("/orders/{id}", on_get(async || "served"));
    let layer = LockLayer::new(LockManager::in_memory()).key("order:<id>").on_no_route(OnNoRoute::Serve);
    let app = Router::new().nest_service("/api", service).layer(layer);
    let (log, _capturing) = capture();
    assert_eq!(send(&app, get("/elsewhere")).await.status(), StatusCode::NOT_FOUND);
    assert!(log.all().is_empty());
    for _ in 0..3 {
        assert_eq!(send(&app, get("/api/orders/42")).await.status(), StatusCode::OK);
    }
    let lines = log.all();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("served without a lock"), "{lines:?}");
}

#[tokio::test]
async fn a_handler_that_wants_the_lock_of_a_skipped_request_is_told_so() {
    let layer = LockLayer::new(LockManager::in_memory()).key("k").unsafe_methods();
    let app = Router::new().route("/skipped", on_get(async |_lock: LockHandle| "").layer(layer));
    let (log, _capturing) = capture();
    assert_eq!(send(&app, get("/skipped")).await.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(log.all()[0].contains("skips such requests, so take an `Option<LockHandle>`"), "{:?}", log.all());
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_lock_are_told_every_ten_seconds_with_their_number() {
    let store = Remote::default();
    let layer = LockLayer::new(store.manager()).key("k").on_store_error(OnStoreError::RunUnlocked);
    let app = Router::new().route("/", on_get(async || "").layer(layer));
    store.down.store(true, Ordering::Relaxed);
    let (log, _capturing) = capture();
    for (pause, lines, count) in [(0, 1, "count=1"), (9, 1, ""), (1, 2, "count=40"), (3_600, 3, "count=20")] {
        tokio::time::advance(Duration::from_secs(pause)).await;
        for _ in 0..20 {
            assert_eq!(send(&app, get("/")).await.status(), StatusCode::OK);
        }
        let told = log.all();
        assert_eq!(told.len(), lines, "{told:?}");
        let last = told.last().unwrap();
        assert!(last.starts_with("WARN") && last.contains("without a lock"), "{last}");
        assert!(last.contains(count), "{last}");
    }
}

/// Returns a request of a session whose name must not be logged.
fn session(uri: &str) -> Request<Body> {
    Request::get(uri).header("x-session", "s3cr3t").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn keys_that_are_kept_out_of_the_log_are_in_no_line_of_an_outage_and_it_warns_once() {
    let store = Remote::default();
    let locks = LockManager::builder(store.clone()).redact_keys(true).build().unwrap();
    let layer = |name: &str| LockLayer::new(locks.clone()).key(&format!("{name}:<header.x-session>"));
    let invalid = |parts: &Parts| lock_core::key::Key::new(if parts.headers.is_empty() { "k" } else { "" });
    let app = Router::new()
        .route("/refused", on_get(async || "").layer(layer("refused")))
        .route(
            "/unlocked",
            on_get(async || "").layer(layer("unlocked").on_store_error(OnStoreError::RunUnlocked)),
        )
        .route(
            "/needed",
            on_get(async |_lock: LockHandle| "")
                .layer(layer("needed").on_store_error(OnStoreError::RunUnlocked)),
        )
        .route("/fenced", on_get(async |_: FencingToken| "").layer(layer("fenced")))
        .route("/chosen", on_get(async || "").layer(LockLayer::new(locks.clone()).key_fn("chosen", invalid)));
    for (uri, down, status, warnings) in [
        ("/refused", true, 503, 1),
        ("/unlocked", true, 200, 1),
        // One warning is about the requests without a lock. The other warning is about the handler, which needs its
        // lock and refuses such requests.
        ("/needed", true, 503, 2),
        ("/fenced", false, 500, 1),
        ("/chosen", false, 400, 0),
    ] {
        store.down.store(down, Ordering::Relaxed);
        let (log, _capturing) = capture_at(Level::TRACE);
        for _ in 0..50 {
            assert_eq!(send(&app, session(uri)).await.status(), status, "{uri}");
        }
        let lines = log.all();
        assert!(!lines.iter().any(|line| line.contains("s3cr3t")), "{uri}: {lines:?}");
        let told = lines.iter().filter(|line| line.starts_with("WARN") || line.starts_with("ERROR"));
        assert_eq!(told.count(), warnings, "{uri}: {lines:?}");
    }
}
