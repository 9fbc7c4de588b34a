//! What the log says where the client is told nothing.

use std::fmt::{Debug, Write};

use axum::Router;
use axum::routing::get as on_get;
use http::StatusCode;
use lock_axum::{LockHandle, LockLayer};
use lock_core::LockManager;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::support::{Log, get, send};

/// Keeps warnings and errors, with their fields.
struct Capture(Log);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
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

fn capture() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    (log.clone(), tracing::subscriber::set_default(Capture(log)))
}

#[tokio::test]
async fn a_missing_layer_is_named_with_its_route() {
    let app = Router::new().route("/orders/{id}", on_get(async |_lock: LockHandle| ""));
    let (log, _capturing) = capture();
    send(&app, get("/orders/42")).await;
    assert!(log.all()[0].contains("add `LockLayer` to the route `/orders/{id}`"), "{:?}", log.all());
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
    let layer = LockLayer::new(LockManager::in_memory()).key("order:<id>");
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
