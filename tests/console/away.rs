//! The page while the store or the service does not respond.

use std::sync::atomic::Ordering;

use axum::body::Body;
use http::{Request, StatusCode};
use serde_json::json;
use tower::ServiceExt;

use crate::browser::Browser;
use crate::site::{below_locks, hanging, nested, read_only, serve, serve_at};
use crate::store::{Server, Store, hold};

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_is_told_and_comes_back() {
    let mut store = Store::redis();
    let locks = store.manager("console").await;
    let _guard = hold(&locks, "order:7", "feed").await;
    let browser = Browser::open(&below_locks(read_only(&locks)).await).await;
    browser.live().await;
    browser.row("order:7").await;
    let Server::Redis(server) = &mut store.server else { unreachable!("it is one") };
    server.kill9();
    browser.status("could not be listed").await;
    browser.status("the locks are those of").await;
    // The last known list stays, marked as old.
    browser.row("order:7").await;
    browser.picture("away").await;
    // A console that has never reached the store does not claim that no lock is held.
    browser.go(&below_locks(read_only(&locks)).await).await;
    browser.status("could not be listed").await;
    for view in ["held", "waiting"] {
        browser.view(view).await;
        browser.status("could not be listed").await;
        let note = browser.text(&format!("#note-{view}")).await;
        assert_eq!(note, "Not known: the locks could not be listed.");
        assert_eq!(browser.text(&format!("#count-{view}")).await, "");
    }
    browser.picture("away-from-the-start").await;
    browser.view("held").await;
    server.restart();
    browser.live().await;
    browser.close().await;
}

/// The next process numbers its events from 0 again.
#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_the_next_process_is_its_own() {
    let (locks, next) = (lock_core::LockManager::in_memory(), lock_core::LockManager::in_memory());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let service = runtime.spawn(serve(nested("/locks", read_only(&locks)))).await.expect("no panic");
    let browser = Browser::open(&format!("{service}/locks/#history")).await;
    browser.live().await;
    let first = "return document.querySelector('#table-history tbody tr')?.innerText.includes(arguments[0])";
    let _one = hold(&locks, "order:one", "feed").await;
    browser.until("the event of the first process", first, [json!("order:one")]).await;
    runtime.shutdown_background();
    browser.status("connection lost").await;
    // The journal of the next process has as many events when the page reconnects.
    let app = nested("/locks", read_only(&next));
    let state = Request::get("/locks/api/state").body(Body::empty()).expect("a request");
    assert_eq!(app.clone().oneshot(state).await.expect("an answer").status(), StatusCode::OK);
    let _two = hold(&next, "order:two", "feed").await;
    serve_at(service.trim_start_matches("http://"), app).await;
    browser.live().await;
    browser.until("the event of the next process", first, [json!("order:two")]).await;
    let text = browser.text("#table-history").await;
    assert!(!text.contains("order:one"), "{text}");
    browser.close_after(usize::MAX, "net::ERR").await;
}

/// The connection behaves like that of a phone in a tunnel: nothing arrives, and no error is reported.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_hangs_is_not_live() {
    let locks = lock_core::LockManager::in_memory();
    let _guard = hold(&locks, "order:7", "feed").await;
    let (console, hangs) = hanging(read_only(&locks));
    let browser = Browser::open(&below_locks(console).await).await;
    browser.live().await;
    browser.row("order:7").await;
    hidden(&browser, true).await;
    browser.status("paused").await;
    hangs.store(true, Ordering::SeqCst);
    hidden(&browser, false).await;
    browser.status("connecting; the locks are those of").await;
    browser.row("order:7").await;
    browser.status("connection lost").await;
    hangs.store(false, Ordering::SeqCst);
    browser.live().await;
    browser.close().await;
}

/// Makes the page believe that its tab is in the background, or in front again.
async fn hidden(browser: &Browser, is_hidden: bool) {
    let change = "Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true });
                  document.dispatchEvent(new Event('visibilitychange'))";
    browser.js(change, [json!(is_hidden)]).await;
}

/// If the store takes long to list its locks, the page shows the age of the list.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_list_has_its_time() {
    let browser = Browser::open(&below_locks(read_only(&lock_core::LockManager::in_memory())).await).await;
    browser.live().await;
    let shown = "show({ ...latest, time_ms: latest.seen_ms + arguments[0] });
                 return document.querySelector('#where').textContent.includes(' · as of ')";
    for (age_ms, has_time) in [(0, false), (1_500, false), (2_500, true)] {
        assert_eq!(browser.js(shown, [json!(age_ms)]).await, has_time, "{age_ms}");
    }
    // This store cannot list.
    browser.view("waiting").await;
    let note = "show({ ...latest, total: null, waiting: null, seen_ms: null, unlisted: true });
                return document.querySelector('#note-waiting').textContent";
    let note = browser.js(note, []).await;
    assert!(note.as_str().is_some_and(|note| note.starts_with("This store cannot list")), "{note}");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_gone_is_told_and_comes_back() {
    let locks = lock_core::LockManager::in_memory();
    let _guard = hold(&locks, "order:7", "feed").await;
    let app = nested("/locks", read_only(&locks));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let service = runtime.spawn(serve(app.clone())).await.expect("no panic");
    let browser = Browser::open(&format!("{service}/locks/")).await;
    browser.live().await;
    browser.row("order:7").await;
    runtime.shutdown_background();
    browser.status("connection lost").await;
    browser.status("the locks are those of").await;
    browser.row("order:7").await;
    browser.picture("gone").await;
    serve_at(service.trim_start_matches("http://"), app).await;
    browser.live().await;
    browser.close_after(usize::MAX, "net::ERR").await;
}
