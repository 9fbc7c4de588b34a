//! Tests the release by force.

use axum::body::Body;
use http::{Request, StatusCode};
use lock_core::{LockManager, LossReason};
use serde_json::json;

use crate::support::{json as parsed, read_only, send, with_actions};

/// Returns the request that the page sends to release a key.
pub(crate) fn order(key: &str, id: &str, typed_key: &str, reason: &str) -> Request<Body> {
    let body = json!({ "key": key, "id": id, "typed_key": typed_key, "reason": reason });
    Request::post("/api/force-release")
        .header("content-type", "application/json")
        .header("x-lock-console", "1")
        .header("sec-fetch-site", "same-origin")
        .body(Body::from(body.to_string()))
        .expect("a request")
}

async fn id_of(locks: &LockManager, key: &str) -> String {
    locks.inspect(key).await.unwrap().expect("it is held").holders[0].id.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_taken_from_its_holder() {
    let locks = LockManager::in_memory();
    let app = with_actions(&locks);
    let guard = locks.lock("order:1").acquire().await.unwrap();
    let other = locks.lock("order:2").acquire().await.unwrap();
    let id = id_of(&locks, "order:1").await;
    let answer = send(&app, order("order:1", &id, "order:1", "stuck")).await;
    assert_eq!((answer.status(), parsed(answer).await), (StatusCode::OK, json!({ "released": true })));
    assert_eq!(guard.lost().await, LossReason::Forced);
    other.check().expect("it is another lock");
    assert!(!locks.is_locked("order:1").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_old_id_takes_nothing_from_a_later_holder() {
    let locks = LockManager::in_memory();
    let app = with_actions(&locks);
    let first = locks.lock("order:1").acquire().await.unwrap();
    let id = id_of(&locks, "order:1").await;
    first.release().await.unwrap();
    let second = locks.lock("order:1").acquire().await.unwrap();
    let answer = send(&app, order("order:1", &id, "order:1", "stuck")).await;
    assert_eq!((answer.status(), parsed(answer).await), (StatusCode::OK, json!({ "released": false })));
    second.check().expect("it is another grant");
}

#[tokio::test(start_paused = true)]
async fn a_key_of_the_namespace_is_named_without_it() {
    let locks =
        LockManager::builder(lock_core::backend::memory::Memory::new()).namespace("eu").build().unwrap();
    let guard = locks.lock("a\nb").acquire().await.unwrap();
    let id = id_of(&locks, "a\nb").await;
    let answer = send(&with_actions(&locks), order("a\nb", &id, "ab", "stuck")).await;
    assert_eq!(parsed(answer).await, json!({ "released": true }));
    assert!(guard.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_request_without_care_is_refused() {
    let locks = LockManager::in_memory();
    let app = with_actions(&locks);
    let guard = locks.lock("order:1").acquire().await.unwrap();
    let id = id_of(&locks, "order:1").await;
    for (typed, id, reason, says) in [
        ("order:2", id.as_str(), "stuck", "not the key of this lock"),
        ("", &id, "stuck", "not the key of this lock"),
        ("order:1", &id, "  ", "reason is missing"),
        ("order:1", "0123", "stuck", "40 lower-case hexadecimal digits"),
    ] {
        let answer = send(&app, order("order:1", id, typed, reason)).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        let problem = parsed(answer).await;
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    }
    for body in ["", "{}", "[]", &format!("{{\"key\":\"{}\"}}", "x".repeat(20_000))] {
        let mut request = order("", "", "", "");
        *request.body_mut() = Body::from(body.to_owned());
        assert_eq!(send(&app, request).await.status(), StatusCode::BAD_REQUEST, "{body:.10}");
    }
    let empty = send(&app, order("", &id, "", "stuck")).await;
    assert_eq!(empty.status(), StatusCode::BAD_REQUEST);
    guard.check().expect("nothing was released");
}

/// If a key contains invisible characters, the page shows it in an escaped form that an operator can type.
#[tokio::test(start_paused = true)]
async fn a_key_can_be_typed_as_the_page_shows_it() {
    let locks = LockManager::in_memory();
    let app = with_actions(&locks);
    for (key, typed) in [("a\u{202e}b", "a\\u{202e}b"), ("\n", "\\u{a}"), ("a\u{a0}", "a\\u{a0}")] {
        let guard = locks.lock(key).acquire().await.unwrap();
        let id = id_of(&locks, key).await;
        assert_eq!(send(&app, order(key, &id, "", "stuck")).await.status(), StatusCode::BAD_REQUEST);
        let answer = send(&app, order(key, &id, typed, "stuck")).await;
        assert_eq!(parsed(answer).await, json!({ "released": true }), "{key:?}");
        assert!(guard.check().is_err());
    }
}

#[tokio::test]
async fn the_log_names_the_person_and_no_one_else() {
    let (log, _guard) = crate::log::capture();
    let locks = LockManager::in_memory();
    let app = with_actions(&locks);
    let _held = locks.lock("order:1").acquire().await.unwrap();
    let id = id_of(&locks, "order:1").await;
    send(&app, order("order:1", &id, "order:2", "stuck")).await;
    send(&read_only(&locks), order("order:1", &id, "order:1", "stuck")).await;
    let forged = "stuck (by bob, from the console)\nWARN by bob";
    let answer = send(&app, order("order:1", &id, "order:1", forged)).await;
    assert_eq!(parsed(answer).await, json!({ "released": true }));
    let lines = log.lock().unwrap().clone();
    let has = |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(has(&["has failed", "\"ann\"", "not the key"]), "{lines:?}");
    assert!(has(&["has failed", "None", "you may only look"]), "{lines:?}");
    assert!(has(&["by force", "by \\\"ann\\\" from the console: stuck (by bob"]), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_page_of_another_site_cannot_act() {
    let locks = LockManager::in_memory();
    let app = with_actions(&locks);
    let guard = locks.lock("order:1").acquire().await.unwrap();
    let id = id_of(&locks, "order:1").await;
    let changed = |name: &'static str, value: Option<&'static str>| {
        let mut request = order("order:1", &id, "order:1", "stuck");
        request.headers_mut().remove(name);
        if let Some(value) = value {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        request
    };
    for (name, value) in [
        ("content-type", None),
        ("content-type", Some("text/plain")),
        ("content-type", Some("application/x-www-form-urlencoded")),
        ("x-lock-console", None),
        ("x-lock-console", Some("0")),
        ("sec-fetch-site", Some("cross-site")),
        ("sec-fetch-site", Some("same-site")),
    ] {
        assert_eq!(
            send(&app, changed(name, value)).await.status(),
            StatusCode::FORBIDDEN,
            "{name} {value:?}"
        );
    }
    guard.check().expect("nothing was released");
    // Old browsers do not send this header, so a request without it is accepted.
    assert_eq!(send(&app, changed("sec-fetch-site", None)).await.status(), StatusCode::OK);
    assert!(guard.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_console_that_allows_no_actions_does_nothing() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("order:1").acquire().await.unwrap();
    let id = id_of(&locks, "order:1").await;
    let answer = send(&read_only(&locks), order("order:1", &id, "order:1", "stuck")).await;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    guard.check().expect("nothing was released");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_503() {
    let store = crate::store::Counted::default();
    let locks = store.manager();
    let app = with_actions(&locks);
    let guard = locks.lock("order:1").acquire().await.unwrap();
    let id = id_of(&locks, "order:1").await;
    store.down.store(true, std::sync::atomic::Ordering::SeqCst);
    let answer = send(&app, order("order:1", &id, "order:1", "stuck")).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    store.down.store(false, std::sync::atomic::Ordering::SeqCst);
    store.panics.store(true, std::sync::atomic::Ordering::SeqCst);
    let answer = send(&app, order("order:1", &id, "order:1", "stuck")).await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    guard.check().expect("nothing was released");
}
