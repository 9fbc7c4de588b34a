//! A store that does not answer, and comes back.

use std::sync::atomic::Ordering;

use http::StatusCode;

use crate::store::Counted;
use crate::support::{Stream, get, read_only};

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_told_and_comes_back() {
    let store = Counted::default();
    let locks = store.manager();
    let app = read_only(&locks);
    let guard = locks.lock("order:1").acquire().await.unwrap();
    let mut stream = Stream::open(&app, "/api/events").await;
    stream.until(|state| state["error"].is_null() && state["total"] == 1).await;
    for (switch, says) in [(&store.down, "made it unreachable"), (&store.panics, "panicked")] {
        switch.store(true, Ordering::SeqCst);
        let state = stream.until(|state| !state["error"].is_null()).await;
        assert!(state["error"].as_str().unwrap().contains(says), "{state}");
        // What was known last is shown as such.
        assert_eq!(state["total"], 1);
        assert!(state["seen_ms"].as_u64().is_some());
        switch.store(false, Ordering::SeqCst);
        stream.until(|state| state["error"].is_null() && state["seen_ms"].is_null()).await;
    }
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn answers_straight_from_the_store_are_503() {
    let store = Counted::default();
    let app = read_only(&store.manager());
    store.down.store(true, Ordering::SeqCst);
    for path in ["/api/locks", "/api/doctor"] {
        let answer = get(&app, path).await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(answer.headers()["content-type"], "application/problem+json", "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_has_shut_down_is_told() {
    let locks = Counted::default().manager();
    let app = read_only(&locks);
    let mut stream = Stream::open(&app, "/api/events").await;
    stream.state().await.expect("a state");
    locks.shutdown(std::time::Duration::ZERO).await;
    let state = stream.until(|state| !state["error"].is_null()).await;
    assert!(state["error"].as_str().unwrap().contains("shut"), "{state}");
}
