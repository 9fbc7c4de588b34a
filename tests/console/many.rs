//! The page with 10,000 locks, and with one more than a list can contain.

use lock_core::LockManager;

use crate::browser::Browser;
use crate::site::{below_locks, read_only};
use crate::store::hold;

/// The largest number of rows that the page shows.
const ROWS: usize = 500;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_locks_are_soon_there() {
    let locks = LockManager::in_memory();
    let mut guards = Vec::new();
    for number in 0..10_000 {
        guards.push(hold(&locks, &format!("order:{number:05}"), "pay").await);
    }
    let url = below_locks(read_only(&locks)).await;
    // The first start of a browser is not part of the measurement.
    let browser = Browser::open("about:blank").await;
    browser.go(&url).await;
    browser.rows(ROWS).await;
    let rows = browser.js("return Math.round(performance.now())", []).await;
    let painted = "const [paint] = performance.getEntriesByName('first-contentful-paint');
                   return paint ? Math.round(paint.startTime) : null";
    let painted = browser.until("something is painted", painted, []).await;
    println!("10,000 locks: first paint after {painted} ms, {ROWS} rows after {rows} ms at most");
    let text = browser.text("#view-held").await;
    assert!(text.replace([',', '\u{202F}', '\u{A0}', '.', ' '], "").contains("10000"), "{}", &text[..400]);
    browser.write("#filter", "order:0999").await;
    browser.rows(10).await;
    browser.picture("many").await;
    // The page does not claim that a key outside the list is free.
    guards.push(hold(&locks, "order:10000", "pay").await);
    browser.write("#filter", "order:10000").await;
    browser.rows(0).await;
    let note = "return document.querySelector('#note-held').textContent.includes('This list ends after 10,000 keys')";
    browser.until("the page says that there are more", note, []).await;
    let text = browser.text("#note-held").await;
    assert!(text.contains("No key in this list begins so."), "{text}");
    browser.picture("more").await;
    browser.close().await;
}
