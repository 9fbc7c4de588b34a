//! The page shows each change of the store soon, and otherwise stays the same.

use serde_json::json;

use crate::browser::Browser;
use crate::site::{below_locks, read_only};
use crate::store::{Crowd, Store, WAITERS, hold, key};

/// The number of held locks.
const HELD: usize = 500;
const AWAITED: usize = 50;
/// The number of measured changes.
const CHANGES: usize = 7;

#[tokio::test(flavor = "multi_thread")]
async fn a_change_on_redis_is_on_the_page() {
    follows(Store::redis()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_on_postgres_is_on_the_page() {
    follows(Store::postgres()).await;
}

async fn follows(store: Store) {
    let crowd = Crowd::start(&store, HELD, AWAITED).await;
    let locks = store.manager("console").await;
    let browser = Browser::open(&below_locks(read_only(&locks)).await).await;
    browser.live().await;
    browser.rows(HELD).await;
    shows_holders(&browser).await;
    shows_waiters(&browser).await;
    filters(&browser).await;
    follows_changes(&browser, &store, crowd).await;
    browser.close().await;
}

/// A row shows the holder of the key, its label, the start of its hold, and the number of waiters.
async fn shows_holders(browser: &Browser) {
    let row = browser.row("order:000").await;
    for part in ["order:000", "shop", "charge the card", &std::process::id().to_string(), "4"] {
        assert!(row.contains(part), "{part} is in {row:?}");
    }
    let since = "return !!row('order:000').querySelector('time[datetime]')";
    assert_eq!(browser.js(since, []).await, true, "{row}");
}

async fn shows_waiters(browser: &Browser) {
    browser.view("waiting").await;
    browser.live().await;
    let text = browser.text("#view-waiting").await;
    let waiters = format!("{} waiters for {AWAITED} keys", AWAITED * WAITERS);
    assert!(text.contains(&waiters), "{waiters}: {text}");
    for part in ["order:000", "order:049", "billing", "retry"] {
        assert!(text.contains(part), "{part} is in {text}");
    }
    browser.view("held").await;
}

async fn filters(browser: &Browser) {
    let imports = "return rows().length === 50 && rows().every(row => row.dataset.key.startsWith('import:'))";
    browser.write("#filter", "import:").await;
    browser.until("the rows that begin so", imports, []).await;
    // The filtered list stays when the next state arrives, and no removed row reappears.
    browser.write("#filter", "nothing begins so").await;
    browser.rows(0).await;
    let emptied =
        "const filter = document.querySelector('#filter'); filter.focus(); filter.select(); return true";
    browser.js(emptied, []).await;
    browser.press("\u{E003}").await;
    browser.rows(HELD).await;
}

/// Measures how soon the page shows changes. The focused row keeps the focus, and the elements of the other rows stay.
async fn follows_changes(browser: &Browser, store: &Store, mut crowd: Crowd) {
    let other = store.manager("night shift").await;
    let mut kept = Vec::new();
    let mut took = Vec::new();
    browser.js("rows().forEach((row, number) => { row.seen = number })", []).await;
    browser.js("window.scrollTo(0, 400)", []).await;
    for change in 0..CHANGES {
        let gone = HELD - CHANGES + change;
        let began = watch(browser, &key(gone), false).await;
        crowd.release(HELD - CHANGES).await;
        took.push(since(browser, began).await);
        let new = format!("order:new-{change}");
        let began = watch(browser, &new, true).await;
        kept.push(hold(&other, &new, "by hand").await);
        took.push(since(browser, began).await);
    }
    took.sort_unstable();
    println!("{}: a change is on the page after {took:?} ms", store.name);
    let same = browser.js("return rows().filter(row => row.seen !== undefined).length", []).await;
    assert_eq!(same, HELD - CHANGES, "rows that did not change are the same");
    assert_eq!(browser.js("return Math.round(window.scrollY)", []).await, 400, "the page has not moved");
}

/// Makes the page record when the row of `key` appears or disappears. Returns the current time.
async fn watch(browser: &Browser, key: &str, there: bool) -> i64 {
    let watch = "const [key, there] = arguments;
        window.noted = new Promise(note => {
            const look = () => { if (!!row(key) === there) { watcher.disconnect(); note(Date.now()) } };
            const watcher = new MutationObserver(look);
            watcher.observe(document.body, { subtree: true, childList: true, attributes: true });
            look();
        });
        return Date.now()";
    browser.js(watch, [json!(key), json!(there)]).await.as_i64().expect("a time")
}

/// Returns the milliseconds from `began` until the page recorded the change.
async fn since(browser: &Browser, began: i64) -> i64 {
    let noted = browser.js_later("window.noted.then(arguments[0])", []).await;
    noted.as_i64().expect("a time") - began
}
