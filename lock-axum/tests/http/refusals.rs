//! Tests how a program can choose the answers to refused requests.

use axum::Router;
use axum::routing::get as on_get;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Body as _;
use lock_axum::{LockLayer, Outcome};
use lock_core::LockManager;

use crate::support::{Remote, get, send, text};

async fn refused(layer: impl FnOnce(LockLayer) -> LockLayer) -> Response<axum::body::Body> {
    let locks = LockManager::in_memory();
    let _busy = locks.lock("k").acquire().await.unwrap();
    let layer = layer(LockLayer::new(locks.clone()).key("k"));
    send(&Router::new().route("/some/where", on_get(async || "served").layer(layer)), get("/some/where"))
        .await
}

#[tokio::test]
async fn statuses_are_replaced_and_the_document_says_the_same() {
    for (layer, status) in [
        (refused(LockLayer::locked).await, StatusCode::LOCKED),
        (refused(LockLayer::too_many_requests).await, StatusCode::TOO_MANY_REQUESTS),
        (
            refused(|layer| layer.locked().status(Outcome::Contended, StatusCode::IM_A_TEAPOT)).await,
            StatusCode::IM_A_TEAPOT,
        ),
        (refused(|layer| layer.status(Outcome::Lost, StatusCode::GONE)).await, StatusCode::CONFLICT),
    ] {
        assert_eq!(layer.status(), status);
        assert!(layer.headers().contains_key(RETRY_AFTER));
        let document = text(layer).await;
        assert!(document.contains(&format!("\"status\":{}", status.as_u16())), "{document}");
        assert!(document.contains("lock-contended"), "{document}");
    }
}

#[tokio::test]
async fn an_answer_of_the_programs_own_sees_the_rejection_and_the_request() {
    let answer = refused(|layer| {
        layer.locked().respond_with(|rejection, request| {
            assert_eq!((rejection.outcome(), rejection.status()), (Outcome::Contended, StatusCode::LOCKED));
            assert_eq!(rejection.template(), Some("k"));
            assert!(rejection.retry_after().is_some() && rejection.waited().is_some());
            let text = format!("{}: {}", request.uri.path(), rejection.detail());
            (rejection.to_response().into_parts().0, text)
        })
    })
    .await;
    assert_eq!(answer.status(), StatusCode::LOCKED);
    assert!(answer.headers().contains_key(RETRY_AFTER));
    assert_eq!(text(answer).await, "/some/where: Another request has locked this resource.");
}

#[tokio::test]
async fn an_answer_of_the_programs_own_is_made_for_bad_keys_and_lost_locks_too() {
    let own = |layer: LockLayer| {
        layer.respond_with(|rejection, request| {
            rejection.to_response().map(|_| format!("{:?} {}", rejection.outcome(), request.method))
        })
    };
    let locks = LockManager::in_memory();
    let bad = own(LockLayer::new(locks.clone()).key("<header.x>"));
    let lost = own(LockLayer::new(locks).key("k").max_hold(std::time::Duration::from_millis(20)));
    let down = Remote::default();
    down.down.store(true, std::sync::atomic::Ordering::Relaxed);
    let down = own(LockLayer::new(down.manager()).key("k"));
    let app = Router::new()
        .route("/bad", on_get(async || "served").layer(bad))
        .route("/lost", on_get(std::future::pending::<()>).layer(lost))
        .route("/down", on_get(async || "served").layer(down));
    for (path, expected) in
        [("/bad", "KeyInvalid GET"), ("/lost", "Lost GET"), ("/down", "StoreUnavailable GET")]
    {
        assert_eq!(text(send(&app, get(path)).await).await, expected);
    }
}

#[tokio::test]
async fn grpc_gets_its_status_in_the_head_and_no_body() {
    let answer = refused(LockLayer::grpc).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()[CONTENT_TYPE], "application/grpc");
    assert_eq!(answer.headers()["grpc-status"], "10");
    assert_eq!(answer.headers()["grpc-message"], "Another request has locked this resource.");
    assert!(answer.headers().contains_key("grpc-retry-pushback-ms"));
    assert!(!answer.headers().contains_key(RETRY_AFTER));
    assert!(answer.body().is_end_stream(), "the head is the end");
    assert_eq!(text(answer).await, "");
}
