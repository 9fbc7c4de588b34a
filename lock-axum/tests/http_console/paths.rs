//! Tests the answer of each path.

use http::{Method, StatusCode};
use lock_core::{Kind, LockManager, backend::memory::Memory};
use serde_json::json;

use crate::store::Counted;
use crate::support::{PATHS, data, get, read_only, request, send, text};

#[tokio::test(start_paused = true)]
async fn the_page_and_its_parts() {
    let app = read_only(&LockManager::in_memory());
    for (path, kind, has) in [
        ("/", "text/html; charset=utf-8", "id=\"view-held\""),
        ("/console.js", "text/javascript; charset=utf-8", "EventSource"),
        ("/console.css", "text/css; charset=utf-8", "prefers-color-scheme"),
    ] {
        let answer = get(&app, path).await;
        assert_eq!(
            (answer.status(), &answer.headers()["content-type"]),
            (StatusCode::OK, &kind.parse().unwrap())
        );
        assert!(text(answer).await.contains(has), "{path}");
    }
    assert_eq!(get(&app, "/api/other").await.status(), StatusCode::NOT_FOUND);
    let wrong = send(&app, request(&Method::POST, "/api/state")).await;
    assert_eq!(wrong.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn each_answer_says_what_the_page_may_do() {
    let app = read_only(&LockManager::in_memory());
    for (method, path) in PATHS {
        let answer = send(&app, request(&method, path)).await;
        let header = |name: &str| answer.headers()[name].to_str().unwrap();
        assert_eq!(
            header("content-security-policy"),
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri \
             'none'; form-action 'none'; frame-ancestors 'none'",
            "{path}"
        );
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(header("cache-control"), "no-store", "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_has_the_locks_that_a_request_wants() {
    let locks = Counted::default().manager();
    let app = read_only(&locks);
    let mut held = Vec::new();
    for key in ["a:1", "a:2", "b:1", "a b"] {
        held.push(locks.lock(key).label("work").acquire().await.unwrap());
    }
    let keys = async |query: &str| {
        let state = data(&app, &format!("/api/state{query}")).await;
        let locks = state["locks"].as_array().unwrap().iter();
        let mut keys: Vec<_> = locks.map(|lock| lock["key"].as_str().unwrap()).collect();
        keys.sort_unstable();
        (keys.join(","), state["total"].as_u64().unwrap())
    };
    for (query, expected, total) in [
        ("", "a b,a:1,a:2,b:1", 4),
        ("?prefix=a%3A", "a:1,a:2", 2),
        ("?prefix=a+b", "a b", 1),
        ("?prefix=c", "", 0),
        ("?limit=1&prefix=b", "b:1", 1),
        ("?limit=2&prefix=a:", "a:1,a:2", 2),
    ] {
        assert_eq!(keys(query).await, (expected.to_owned(), total), "{query}");
    }
    let cut = data(&app, "/api/state?limit=2").await;
    assert_eq!(json!([cut["locks"].as_array().unwrap().len(), cut["total"]]), json!([2, 4]));
    let holder = &data(&app, "/api/state?prefix=b").await["locks"][0]["holders"][0];
    assert_eq!((&holder["record"]["service"], &holder["record"]["label"]), (&json!("shop"), &json!("work")));
    for query in ["?limit=0", "?limit=x", "?prefix=%ff"] {
        let answer = get(&app, &format!("/api/state{query}")).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        assert_eq!(answer.headers()["content-type"], "application/problem+json", "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_has_what_the_page_shows() {
    let locks = LockManager::builder(Memory::new()).namespace("eu").service("shop").build().unwrap();
    let app = read_only(&locks);
    // The journal begins when the page is first opened.
    assert_eq!(data(&app, "/api/state").await["history"], json!([]));
    let held = locks.request("order:1", Kind::Fair).template("order:<id>").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.fair("order:1").label("next").acquire());
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let state = data(&app, "/api/state").await;
    assert_eq!(
        json!([state["store"], state["namespace"], state["service"], state["read_only"], state["pid"]]),
        json!(["memory", "eu", "shop", true, std::process::id()])
    );
    assert_eq!(json!([state["total"], state["waiting"], state["truncated"]]), json!([1, 1, false]));
    assert_eq!(json!([state["error"], state["unlisted"], state["ping"]["servers"]]), json!([null, false, 1]));
    let lock = &state["locks"][0];
    assert_eq!(json!([lock["key"], lock["waiters"][0]["record"]["label"]]), json!(["order:1", "next"]));
    assert_eq!(state["history"][0]["event"], "granted");
    assert_eq!(state["history"][0]["lock"]["key"], "eu:order:1");
    assert_eq!(json!([state["heat"][0]["template"], state["heat"][0]["granted"]]), json!(["order:<id>", 1]));
    assert!(state["since_ms"].as_u64() <= state["time_ms"].as_u64());
    drop(held);
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hostile_key_travels_as_json() {
    let locks = LockManager::in_memory();
    let app = read_only(&locks);
    let key = "<script>\"'\n\u{202e}\u{2028}</script>event: x";
    let _held = locks.lock(key).label(key).acquire().await.unwrap();
    assert_eq!(data(&app, "/api/state").await["locks"][0]["key"], key);
    let mut stream = crate::support::Stream::open(&app, "/api/events").await;
    let part = stream.part().await.unwrap();
    let (_, line) = part.split_once("event: state\ndata: ").unwrap();
    assert!(line.ends_with("\n\n") && line.trim_end().lines().count() == 1, "{part}");
    let state: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(state["locks"][0]["holders"][0]["record"]["label"], key);
}

/// The page requests the first rows. If a store has more keys than one list can hold, the state says so, also with a
/// filter.
#[tokio::test(start_paused = true)]
async fn ten_thousand_locks_are_cut() {
    let locks = LockManager::in_memory();
    let app = read_only(&locks);
    let mut held = Vec::new();
    for number in 0..10_001 {
        held.push(locks.lock(format!("k:{number:05}")).acquire().await.unwrap());
    }
    let state = data(&app, "/api/state").await;
    assert_eq!(state["locks"].as_array().unwrap().len(), 500);
    assert_eq!(json!([state["total"], state["truncated"]]), json!([10_000, true]));
    let filtered = data(&app, "/api/state?prefix=k:0119").await;
    assert_eq!(filtered["locks"].as_array().unwrap().len(), 10);
    assert_eq!(json!([filtered["total"], filtered["truncated"]]), json!([10, true]));
    let beyond = data(&app, "/api/state?prefix=k:10000").await;
    assert_eq!(json!([beyond["total"], beyond["truncated"]]), json!([0, true]));
}
