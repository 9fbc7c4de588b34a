//! Tests the extractors that give a handler its lock.

use axum::Router;
use axum::extract::Path;
use axum::routing::get as on_get;
use http::StatusCode;
use lock_axum::{FencingToken, LockHandle, LockLayer, LockRejection};
use lock_core::{LockManager, distributed_lock};

use crate::support::{Remote, get, send, text};

#[tokio::test]
async fn the_handle_is_that_of_the_request() {
    let app = Router::new().route(
        "/orders/{id}",
        on_get(async |lock: LockHandle| {
            assert!(lock.is_held());
            lock.check().unwrap();
            lock.into_inner().key().to_owned()
        })
        .layer(LockLayer::new(LockManager::in_memory()).key("order:<id>")),
    );
    assert_eq!(text(send(&app, get("/orders/1")).await).await, "order:1");
    assert_eq!(text(send(&app, get("/orders/2")).await).await, "order:2");
}

#[tokio::test]
async fn a_handler_without_a_layer_is_500_unless_it_takes_an_option() {
    let app = Router::new()
        .route("/must", on_get(async |_lock: LockHandle| "served"))
        .route("/token", on_get(async |_token: FencingToken| "served"))
        .route("/may", on_get(async |lock: Option<LockHandle>| lock.is_none().to_string()));
    for path in ["/must", "/token"] {
        let response = send(&app, get(path)).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!text(response).await.contains("LockLayer"));
    }
    assert_eq!(text(send(&app, get("/may")).await).await, "true");
}

#[tokio::test]
async fn fencing_tokens_grow_from_request_to_request() {
    let layer = LockLayer::new(LockManager::in_memory()).key("order:<id>");
    let handler = async |FencingToken(token): FencingToken| token.get().to_string();
    let app = Router::new().route("/orders/{id}", on_get(handler).layer(layer));
    let first = text(send(&app, get("/orders/1")).await).await.parse::<u64>().unwrap();
    let second = text(send(&app, get("/orders/1")).await).await.parse::<u64>().unwrap();
    assert!(second > first);
}

#[tokio::test]
async fn a_store_without_fencing_tokens_is_500() {
    let layer = LockLayer::new(Remote::default().manager()).key("order:<id>");
    let app = Router::new().route("/orders/{id}", on_get(async |_: FencingToken| "served").layer(layer));
    assert_eq!(send(&app, get("/orders/1")).await.status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn a_token_that_may_be_missing_is_none_without_a_lock_and_an_error_without_a_token() {
    let token = async |token: Option<FencingToken>| token.is_some().to_string();
    let layer =
        |locks: LockManager| LockLayer::new(locks).key("k").skip_if(|parts| parts.uri.query().is_some());
    let app = Router::new()
        .route("/", on_get(token).layer(layer(LockManager::in_memory())))
        .route("/tokenless", on_get(token).layer(layer(Remote::default().manager())));
    assert_eq!(text(send(&app, get("/")).await).await, "true");
    assert_eq!(text(send(&app, get("/?skip")).await).await, "false");
    assert_eq!(text(send(&app, get("/tokenless?skip")).await).await, "false");
    assert_eq!(send(&app, get("/tokenless")).await.status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[distributed_lock(key = "order:<id.0>", strategy = "fail_fast")]
async fn locked(id: Path<u64>) -> Result<String, LockRejection> {
    Ok(id.0.to_string())
}

#[tokio::test]
async fn a_handler_under_the_attribute_answers_as_the_layer_does() {
    let store = Remote::default();
    let (locks, down) = (LockManager::in_memory(), store.manager());
    let attribute: Router = Router::new().route("/orders/{id}", on_get(locked));
    let layer = |locks: &LockManager| {
        let layer = LockLayer::new(locks.clone()).key("order:<id:u64>");
        Router::new().route("/orders/{id}", on_get(async |Path(id): Path<u64>| id.to_string()).layer(layer))
    };
    store.down.store(true, std::sync::atomic::Ordering::Relaxed);
    let _busy = locks.lock("order:7").acquire().await.unwrap();
    let closed = LockManager::in_memory();
    closed.shutdown(std::time::Duration::ZERO).await;
    for (locks, id, status) in [(&locks, 8, 200), (&locks, 7, 409), (&down, 7, 503), (&closed, 7, 503)] {
        let mut answers = Vec::new();
        for app in [&attribute, &layer(locks)] {
            let answer = locks.scope(send(app, get(&format!("/orders/{id}")))).await;
            assert_eq!(answer.status(), status);
            let kind = answer.headers().get("content-type").cloned();
            // The value of `retry-after` is random, so only its presence is compared.
            let headers = (kind, answer.headers().contains_key("retry-after"));
            let body = text(answer).await;
            // Only the layer adds the field `lock`.
            let body = body.replace(r#","lock":"order:<id:u64>""#, "");
            let body = body.split(r#","retry_after_ms""#).next().unwrap().to_owned();
            answers.push((headers, body));
        }
        assert_eq!(answers[0], answers[1]);
    }
    let nobody = send(&attribute, get("/orders/7")).await;
    assert_eq!(nobody.status(), StatusCode::INTERNAL_SERVER_ERROR, "no manager is installed");
}

#[tokio::test]
async fn the_token_is_that_of_the_lock_and_a_number_for_sql() {
    let handler = async |lock: LockHandle, token: FencingToken| {
        assert_eq!(lock.fencing_token().await.unwrap(), *token);
        assert_eq!(u64::try_from(token.get_i64()).unwrap(), token.get());
        token.to_string()
    };
    let layer = LockLayer::new(LockManager::in_memory()).key("k");
    let app = Router::new().route("/", on_get(handler).layer(layer));
    let number = |text: String| text.parse::<u64>().unwrap();
    let first = number(text(send(&app, get("/")).await).await);
    assert!(number(text(send(&app, get("/")).await).await) > first);
}
