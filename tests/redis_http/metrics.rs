//! The metrics that dashboards can show before the first client arrives.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::post;
use lock_axum::LockLayer;
use lock_core::LockManager;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Records the templates for which counters are registered.
#[derive(Clone, Debug, Default)]
struct Templates(Arc<Mutex<Vec<String>>>);

impl Recorder for Templates {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let template = key.labels().find(|label| label.key() == "template");
        self.0.lock().expect("no panic").extend(template.map(|label| label.value().to_owned()));
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn a_template_is_counted_from_zero_on_before_the_router_has_mounted_its_layer() {
    let templates = Templates::default();
    metrics::with_local_recorder(&templates, || {
        let layer = LockLayer::new(LockManager::in_memory()).key("order:<id>");
        // The layer is mounted when the router gets its state. This happens with its first client.
        let _app: Router = Router::new().route("/orders/{id}", post(async || "").route_layer(layer));
    });
    let seen = templates.0.lock().expect("no panic").clone();
    assert!(seen.iter().any(|template| template == "order:<id>"), "{seen:?}");
}
