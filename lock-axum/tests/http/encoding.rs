//! Tests that two requests with different values never share a key, whatever characters the values contain.

use std::fmt::Write;

use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use http::{Request, StatusCode};
use lock_axum::{LockHandle, LockLayer};
use lock_core::LockManager;
use proptest::prelude::*;

use crate::support::{get, send, text};

/// Returns a route whose key consists of two path parameters, a header and a query parameter.
fn app() -> Router {
    let layer = LockLayer::new(LockManager::in_memory()).key("o:<a:text>:<b:text>:<header.x>:<query.q:text>");
    Router::new().route("/{a}/{b}", on_get(async |lock: LockHandle| lock.key().to_owned()).layer(layer))
}

/// Returns the text with everything but letters percent-encoded.
fn encoded(text: &str) -> String {
    let mut path = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            path.push(char::from(byte));
        } else {
            write!(path, "%{byte:02X}").unwrap();
        }
    }
    path
}

/// Returns the key of a request with these four values.
async fn key_of(app: &Router, [a, b, x, q]: &[String; 4]) -> Option<String> {
    let uri = format!("/{}/{}?q={}", encoded(a), encoded(b), encoded(q));
    let request = Request::get(uri).header("x", x).body(Body::empty()).unwrap();
    let answer = send(app, request).await;
    // The header and the query parameter may be empty, and then the request is refused.
    let expected = if x.is_empty() || q.is_empty() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    assert_eq!(answer.status(), expected, "{a:?} {b:?} {x:?} {q:?}");
    if expected == StatusCode::OK { Some(text(answer).await) } else { None }
}

/// Returns a proptest strategy for short text: characters of templates, paths, forms and encodings, or any text.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a:%/<>+.~&=?#{} \u{e9}-]{1,4}",
        1 => any::<String>().prop_filter("a path has no empty parameter", |text| !text.is_empty()),
    ]
}

fn header() -> impl Strategy<Value = String> {
    // The value of a header does not include the spaces around it.
    "([!-~]([ -~]{0,3}[!-~])?)?"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn different_requests_have_different_keys(
        one in (value(), value(), header(), value()),
        other in (value(), value(), header(), value()),
        swap in 0..4_usize,
    ) {
        let [one, mut other] = [one, other].map(|(a, b, x, q)| [a, b, x, q]);
        // In many cases, all values but one are equal.
        for at in (0..4).filter(|at| *at != swap && swap != 0) {
            other[at] = one[at].clone();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (first, second) = runtime.block_on(async {
            let app = app();
            (key_of(&app, &one).await, key_of(&app, &other).await)
        });
        if let (Some(first), Some(second)) = (first, second) {
            prop_assert_eq!(first == second, one == other, "{:?} {:?}", one, other);
        }
    }
}

#[tokio::test]
async fn values_of_every_size_have_keys_and_bad_ones_are_400() {
    let layer = LockLayer::new(LockManager::in_memory()).key("order:<id:text>");
    let handler = async |lock: LockHandle| lock.key().to_owned();
    let app = Router::new().route("/orders/{id}", on_get(handler).layer(layer));
    let mut keys = Vec::new();
    let long = "x".repeat(10_000);
    for id in ["a%3Ab", "a%2Fb", "a%253Ab", "%C3%A9", "%E2%80%AE", "%00", &long, &format!("{long}y")] {
        let answer = send(&app, get(&format!("/orders/{id}"))).await;
        assert_eq!(answer.status(), StatusCode::OK, "{id:.20}");
        let key = text(answer).await;
        assert!(key.len() <= 512, "{key}");
        keys.push(key);
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 8, "{keys:#?}");
    assert_eq!(send(&app, get("/orders/%ff")).await.status(), StatusCode::BAD_REQUEST);
}
