//! Measures the time that the layer adds to a request whose key is free, on the memory store.
//!
//! ```sh
//! cargo bench -p lock-axum --bench overhead
//! ```
//!
//! The bench calls the same route with and without the layer in turn, in one process and without a socket. The
//! difference of the medians is the cost of the layer.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::{Request, StatusCode};
use http_body::Body as _;
use lock_axum::LockLayer;
use lock_core::LockManager;
use tower::ServiceExt;

const ROUNDS: usize = 20_000;
const WARM_UP: usize = 2_000;

async fn once(app: &Router, path: &str) -> Duration {
    let request = Request::post(path).body(Body::empty()).expect("a request");
    let app = app.clone();
    let began = Instant::now();
    let answer = app.oneshot(request).await.expect("an answer");
    let took = began.elapsed();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.body().size_hint().exact(), Some(6));
    took
}

fn quantile(sorted: &[Duration], share: usize) -> f64 {
    sorted[sorted.len() * share / 100].as_secs_f64() * 1e6
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let bare = || post(async || "served");
    let layer = LockLayer::new(LockManager::in_memory()).key("order:<id>");
    let plain: Router = Router::new().route("/orders/{id}", bare());
    let locked: Router = Router::new().route("/orders/{id}", bare().route_layer(layer));
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..WARM_UP + ROUNDS {
        // There are many keys, and each is used several times.
        let path = format!("/orders/{}", round % 1_000);
        for (app, times) in [&plain, &locked].into_iter().zip(&mut times) {
            let took = once(app, &path).await;
            if round >= WARM_UP {
                times.push(took);
            }
        }
    }
    println!("one request, uncontended, memory ({ROUNDS} of each in turn)");
    let mut medians = Vec::new();
    for (name, times) in ["without the layer", "with the layer"].iter().zip(&mut times) {
        times.sort_unstable();
        let (p50, p99) = (quantile(times, 50), quantile(times, 99));
        println!("  {name:<18} p50 {p50:>6.2} us   p99 {p99:>6.2} us");
        medians.push(p50);
    }
    println!("  the layer adds     p50 {:>6.2} us", medians[1] - medians[0]);
}
