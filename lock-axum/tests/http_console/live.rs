//! Tests that all open pages share one listing of the store per second. While no page is open, the store gets no
//! request.

use http::StatusCode;
use lock_core::{LockManager, strategy};
use serde_json::json;

use crate::store::Counted;
use crate::support::{Stream, data, get, pass, read_only, text};

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_while_no_page_is_open() {
    let store = Counted::default();
    let locks = store.manager();
    let app = read_only(&locks);
    pass(60).await;
    assert_eq!(store.lists(), 0);
    let mut stream = Stream::open(&app, "/api/events").await;
    stream.state().await.expect("a state");
    pass(5).await;
    let asked = store.lists();
    assert!((5..=7).contains(&asked), "once a second: {asked}");
    // The viewer closes the connection, so the server drops the body.
    drop(stream);
    pass(3600).await;
    assert_eq!(store.lists(), asked);
    // The listing begins again with the next viewer.
    Stream::open(&app, "/api/events").await.state().await.expect("a state");
    assert_eq!(store.lists(), asked + 1);
}

#[tokio::test(start_paused = true)]
async fn all_viewers_share_one_look() {
    let store = Counted::default();
    let app = read_only(&store.manager());
    let mut streams = Vec::new();
    for number in 0..20 {
        let mut stream = Stream::open(&app, &format!("/api/events?prefix={number}")).await;
        stream.state().await.expect("a state");
        streams.push(stream);
        data(&app, "/api/state").await;
    }
    assert_eq!(store.lists(), 1);
    pass(5).await;
    assert!(store.lists() <= 7, "{}", store.lists());
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_is_asked_less_often() {
    let store = Counted { takes: std::time::Duration::from_secs(2), ..Counted::default() };
    let app = read_only(&store.manager());
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(Stream::open(&app, "/api/events").await);
        pass(9).await;
    }
    assert!((2..=4).contains(&store.lists()), "each 20 s: {}", store.lists());
}

#[tokio::test(start_paused = true)]
async fn a_change_is_sent_within_a_second_and_nothing_without_one() {
    let locks = LockManager::in_memory();
    let app = read_only(&locks);
    let mut stream = Stream::open(&app, "/api/events?view=held").await;
    assert_eq!(stream.state().await.expect("a state")["total"], 0);
    let began = tokio::time::Instant::now();
    let _guard = locks.lock("order:1").acquire().await.unwrap();
    let first = stream.until(|state| state["total"] == 1).await;
    assert!(began.elapsed().as_millis() <= 1_100, "{:?}", began.elapsed());
    // A renewal alone does not count as a change. The page gets the new rest of the lease after 5 s without a change.
    let began = tokio::time::Instant::now();
    let second = stream.state().await.expect("a state");
    assert_eq!(began.elapsed().as_secs(), 5);
    let left = |state: &serde_json::Value| state["locks"][0]["holders"][0]["remaining_ms"].as_u64();
    assert_ne!(left(&first), left(&second));
}

/// hyper does not poll the body of a stream while the client does not read. The stream still ends after 10 s.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_no_viewer_for_long() {
    let store = Counted::default();
    let locks = store.manager();
    let app = read_only(&locks);
    let unread = Stream::open(&app, "/api/events").await;
    let mut slow = Stream::open(&app, "/api/events").await;
    slow.state().await.expect("a state");
    let mut held = Vec::new();
    for number in 0..20 {
        held.push(locks.lock(number.to_string()).acquire().await.unwrap());
        pass(1).await;
    }
    let asked = store.lists();
    assert!((10..=16).contains(&asked), "for 10 s: {asked}");
    pass(600).await;
    assert_eq!(store.lists(), asked);
    // The end of the stream is delivered to the client once it reads again.
    while let Some(part) = slow.part().await {
        assert!(part.starts_with("event: end") || part.contains("event: state"), "{part}");
    }
    drop(unread);
}

#[tokio::test(start_paused = true)]
async fn no_more_pages_are_open_than_can_be_served() {
    let app = read_only(&LockManager::in_memory());
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(Stream::open(&app, "/api/events").await);
    }
    let answer = get(&app, "/api/events").await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(text(answer).await.contains("64 pages are open"));
    open.pop();
    pass(1).await;
    Stream::open(&app, "/api/events").await.state().await.expect("a state");
    // The other streams end on their own, even if the client does not read them.
    pass(10).await;
    Stream::open(&app, "/api/events").await.state().await.expect("a state");
}

/// After a release by force, the page gets the new state at once, not only after the pause between two polls.
#[tokio::test(start_paused = true)]
async fn a_release_by_force_is_sent_at_once() {
    let locks = LockManager::in_memory();
    let app = crate::support::with_actions(&locks);
    let _guard = locks.lock("order:1").acquire().await.unwrap();
    let mut stream = Stream::open(&app, "/api/events").await;
    let state = stream.until(|state| state["total"] == 1).await;
    let id = state["locks"][0]["holders"][0]["id"].as_str().expect("an id");
    let began = tokio::time::Instant::now();
    crate::support::send(&app, crate::release::order("order:1", id, "order:1", "stuck")).await;
    stream.until(|state| state["total"] == 0).await;
    assert!(began.elapsed().as_millis() < 500, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_so_that_the_server_can() {
    let locks = LockManager::in_memory();
    let app = read_only(&locks);
    let began = tokio::time::Instant::now();
    let mut stream = Stream::open(&app, "/api/events").await;
    let mut last = String::new();
    while let Some(part) = stream.part().await {
        last = part;
    }
    assert_eq!(last, "event: end\ndata: end\n\n");
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn the_journal_outlives_its_viewers_for_a_while() {
    let locks = LockManager::in_memory();
    let app = read_only(&locks);
    let opened = data(&app, "/api/state").await["since_ms"].clone();
    pass(600).await;
    locks.lock("order:1").run(async {}).await.unwrap();
    let busy = locks.lock("order:2").acquire().await.unwrap();
    let refused = tokio::spawn(locks.lock("order:2").strategy(strategy::fail_fast()).acquire());
    assert!(refused.await.unwrap().is_err());
    drop(busy);
    pass(299).await;
    let state = data(&app, "/api/state").await;
    assert_eq!(state["since_ms"], opened);
    let events: Vec<_> =
        state["history"].as_array().unwrap().iter().map(|event| event["event"].clone()).collect();
    assert_eq!(json!(events), json!(["released", "refused", "granted", "released", "granted"]));
    assert_eq!(json!([state["heat"][0]["granted"], state["heat"][0]["refused"]]), json!([2, 1]));
    // While no page is open, the journal forgets its events after a while.
    pass(1_000).await;
    assert_eq!(data(&app, "/api/state").await["history"], json!([]));
}

/// A program may drop its router and its manager before it ends.
#[tokio::test(start_paused = true)]
async fn the_manager_does_not_outlive_the_router_for_long() {
    let locks = LockManager::in_memory();
    let app = read_only(&locks);
    data(&app, "/api/state").await;
    let mut events = locks.events();
    drop((app, locks));
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), events.next()).await;
    assert!(ended.expect("it ends").is_none());
}
