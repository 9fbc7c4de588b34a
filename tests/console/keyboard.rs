//! The page is usable without a mouse.

use lock_core::LossReason;
use lock_tests::PATIENCE;
use serde_json::json;

use crate::browser::{Browser, ENTER, ESCAPE, TAB};
use crate::site::{below_locks, with_actions};
use crate::store::{Store, hold};

/// A number that is larger than the number of stops on the page.
const STOPS: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_alone_reaches_and_confirms_the_release() {
    let store = Store::redis();
    let worker = store.manager("import").await;
    let locks = store.manager("console").await;
    let guard = hold(&worker, "order:7", "feed").await;
    let _other = hold(&worker, "order:8", "feed").await;
    let browser = Browser::open(&below_locks(with_actions(&locks)).await).await;
    browser.live().await;
    browser.row("order:8").await;
    // The first stop is the link that skips the navigation.
    browser.press(&TAB.to_string()).await;
    let first = browser.js("return document.activeElement.getAttribute('href')", []).await;
    assert!(
        first.as_str().is_some_and(|href| href.starts_with('#')),
        "{first} is no link past the navigation"
    );
    let button = "document.activeElement.matches(\"[data-key='order:7'] .release\")";
    stop_at(&browser, button).await;
    // The focus does not move when the page changes.
    let third = hold(&worker, "order:9", "feed").await;
    browser.row("order:9").await;
    drop(third);
    assert_eq!(browser.js(&format!("return {button}"), []).await, true, "the focus has moved");
    // A closed dialog returns the focus to the element that had it.
    open(&browser).await;
    browser.press(&ESCAPE.to_string()).await;
    browser.until("the dialog is closed", "return !document.querySelector('#release').open", []).await;
    assert_eq!(browser.js(&format!("return {button}"), []).await, true, "the focus is lost");
    open(&browser).await;
    stop_at(&browser, "document.activeElement.id === 'typed-key'").await;
    browser.press("order:7").await;
    stop_at(&browser, "document.activeElement.id === 'reason'").await;
    browser.press("stuck").await;
    stop_at(&browser, "document.activeElement.id === 'confirm'").await;
    browser.press(&ENTER.to_string()).await;
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
    assert_eq!(lost.expect("the holder is told"), LossReason::Forced);
    browser
        .until("the answer", "return document.querySelector('#release-answer').textContent.trim() !== ''", [])
        .await;
    browser.until("the row is gone", "return !row('order:7')", []).await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_view_can_be_reached_by_keyboard() {
    let store = Store::redis();
    let locks = store.manager("console").await;
    let browser = Browser::open(&below_locks(with_actions(&locks)).await).await;
    browser.live().await;
    for view in crate::views::VIEWS {
        stop_at(&browser, &format!("document.activeElement.matches('nav [href$=\"#{view}\"]')")).await;
        browser.press(&ENTER.to_string()).await;
        let shown = "return document.getElementById('view-' + arguments[0]).checkVisibility()";
        browser.until(&format!("the view {view}"), shown, [json!(view)]).await;
    }
    browser.close().await;
}

async fn open(browser: &Browser) {
    browser.press(&ENTER.to_string()).await;
    let open = "const dialog = document.querySelector('#release');
                return dialog.open && dialog.contains(document.activeElement)";
    browser.until("the dialog is open, and has the focus", open, []).await;
}

/// Presses the tab key until the element has the focus. Each stop on the way must show its focus visibly.
async fn stop_at(browser: &Browser, there: &str) {
    for _ in 0..STOPS {
        if browser.js(&format!("return {there}"), []).await == true {
            return;
        }
        browser.press(&TAB.to_string()).await;
        let seen =
            "const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(document.activeElement);
            return document.activeElement === document.body || boxShadow !== 'none' ||
                (outlineStyle !== 'none' && outlineWidth !== '0px')";
        let stop = browser.js("return document.activeElement.outerHTML.slice(0, 200)", []).await;
        assert_eq!(browser.js(seen, []).await, true, "{stop} does not show its focus");
    }
    panic!("no stop is {there}");
}
