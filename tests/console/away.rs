//! The store is away, or the service is.

use crate::browser::Browser;
use crate::site::{below_locks, nested, read_only, serve, serve_at};
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
    browser.status("did not answer").await;
    browser.status("the locks are those of").await;
    // What was known last stays, marked as what it is.
    browser.row("order:7").await;
    browser.picture("away").await;
    server.restart();
    browser.live().await;
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
    // The browser has logged that no one answered.
    let errors = browser.errors().await;
    assert!(errors.iter().all(|error| error.contains("net::ERR")), "{errors:?}");
    browser.close().await;
}
