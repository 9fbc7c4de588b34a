//! Tests a store that stops answering, and recovers.

use std::sync::atomic::Ordering;

use http::StatusCode;
use serde_json::json;

use crate::store::Counted;
use crate::support::{Stream, data, get, pass, read_only};

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
        // The state still contains the last known list.
        assert_eq!(state["total"], 1);
        assert!(state["seen_ms"].as_u64().is_some());
        switch.store(false, Ordering::SeqCst);
        stream.until(|state| state["error"].is_null()).await;
    }
    drop(guard);
}

/// A stream ends after a while, so there are moments without any open page.
#[tokio::test(start_paused = true)]
async fn the_last_list_outlives_its_viewers() {
    let store = Counted::default();
    let locks = store.manager();
    let app = read_only(&locks);
    let _guard = locks.lock("order:1").acquire().await.unwrap();
    let seen = data(&app, "/api/state").await["seen_ms"].clone();
    store.down.store(true, Ordering::SeqCst);
    // No page is open meanwhile.
    pass(60).await;
    for _ in 0..3 {
        let state = Stream::open(&app, "/api/events").await.state().await.expect("a state");
        assert_eq!(json!([state["total"], state["locks"][0]["key"]]), json!([1, "order:1"]), "{state}");
        assert_eq!(state["seen_ms"], seen, "{state}");
        assert!(!state["error"].is_null());
        pass(5).await;
    }
}

/// The state without any list differs from the state without any held lock.
#[tokio::test(start_paused = true)]
async fn a_store_that_was_away_from_the_start_has_no_numbers() {
    let store = Counted::default();
    let app = read_only(&store.manager());
    store.down.store(true, Ordering::SeqCst);
    let state = data(&app, "/api/state").await;
    assert!(!state["error"].is_null());
    assert_eq!(json!([state["total"], state["waiting"], state["seen_ms"]]), json!([null, null, null]));
    store.down.store(false, Ordering::SeqCst);
    pass(1).await;
    let state = data(&app, "/api/state").await;
    assert_eq!(json!([state["total"], state["waiting"], state["error"]]), json!([0, 0, null]));
}

#[tokio::test(start_paused = true)]
async fn a_doctor_who_cannot_look_is_503_for_all_viewers_at_once() {
    let store = Counted::default();
    let app = read_only(&store.manager());
    store.down.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let answer = get(&app, "/api/doctor").await;
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
    }
    assert_eq!(store.doctors.load(Ordering::SeqCst), 1);
    store.down.store(false, Ordering::SeqCst);
    pass(3).await;
    assert_eq!(get(&app, "/api/doctor").await.status(), StatusCode::OK);
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
