//! Release by force from the page.

use http::StatusCode;
use lock_core::{LockGuard, LockManager, LossReason};
use lock_tests::PATIENCE;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::site::{below_locks, read_only, slow, with_actions};
use crate::store::{Store, hold};

const KEY: &str = "import:feed";
const REASON: &str = "stuck since yesterday";

#[tokio::test(flavor = "multi_thread")]
async fn on_redis() {
    takes_the_lock_away(Store::redis()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres() {
    takes_the_lock_away(Store::postgres()).await;
}

async fn takes_the_lock_away(store: Store) {
    let worker = store.manager("import").await;
    let locks = store.manager("console").await;
    let (guard, _other) = (hold(&worker, KEY, "feed").await, hold(&worker, "other", "feed").await);
    let browser = Browser::open(&below_locks(with_actions(&locks)).await).await;
    browser.live().await;
    refuses_another_key(&browser, &guard).await;
    needs_a_reason(&browser, &guard).await;
    // With both inputs, the lock is released and its holder is notified.
    fill(&browser, KEY, REASON).await;
    browser.click("#confirm").await;
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
    assert_eq!(lost.expect("the holder is told"), LossReason::Forced);
    browser.until("the row is gone", "return !row(arguments[0])", [json!(KEY)]).await;
    browser.row("other").await;
    close(&browser).await;
    drop(guard);
    leaves_the_next_holder_alone(&browser, &worker).await;
    browser.close_after(2, "force-release").await;
}

/// The operator must type the key, because a click in the wrong row is too easy.
async fn refuses_another_key(browser: &Browser, guard: &LockGuard) {
    dialog(browser, KEY).await;
    fill(browser, "import:fee", REASON).await;
    tries_in_vain(browser, "key").await;
    guard.check().expect("it is still held");
}

async fn needs_a_reason(browser: &Browser, guard: &LockGuard) {
    fill(browser, KEY, "").await;
    tries_in_vain(browser, "reason").await;
    guard.check().expect("it is still held");
}

/// Checks that the server refuses, and that the dialog stays open and shows the reason.
async fn tries_in_vain(browser: &Browser, why: &str) {
    browser.click("#confirm").await;
    let answer = "return document.querySelector('#release-answer').textContent.includes(arguments[0])";
    browser.until(&format!("the answer about the {why}"), answer, [json!(why)]).await;
    let focus = browser.js("return document.activeElement.id", []).await;
    assert_eq!(focus, "confirm", "the focus stays");
    assert_eq!(browser.js("return document.querySelector('#release').open", []).await, true);
    browser.row(KEY).await;
}

/// The holder of the row has released, and another one holds the key, when the button is pressed.
async fn leaves_the_next_holder_alone(browser: &Browser, worker: &lock_core::LockManager) {
    let first = hold(worker, KEY, "first").await;
    dialog(browser, KEY).await;
    fill(browser, KEY, REASON).await;
    first.release().await.expect("an answer");
    let second = hold(worker, KEY, "second").await;
    // The dialog is about the grant for which it was opened, even if the page below it changes.
    browser
        .until(
            "the page shows the next holder",
            "return row(arguments[0])?.innerText.includes('second')",
            [json!(KEY)],
        )
        .await;
    browser.click("#confirm").await;
    let answer = "return document.querySelector('#release-answer').textContent.includes('no longer')";
    browser.until("it says that the holder was no longer there", answer, []).await;
    second.check().expect("it is still held");
    browser.picture("release-no-longer-there").await;
    close(browser).await;
    second.release().await.expect("an answer");
}

/// The answer for one lock must not appear as the answer for another lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_is_not_shown_for_another_lock() {
    let locks = LockManager::in_memory();
    let first = hold(&locks, KEY, "feed").await;
    let second = hold(&locks, "other", "feed").await;
    let (console, answers) = slow(with_actions(&locks));
    let browser = Browser::open(&below_locks(console).await).await;
    dialog(&browser, KEY).await;
    fill(&browser, KEY, REASON).await;
    browser.click("#confirm").await;
    first.lost().await;
    close(&browser).await;
    dialog(&browser, "other").await;
    answers.send(StatusCode::OK).expect("the service runs");
    let arrived =
        "return performance.getEntriesByType('resource').some(({ name }) => name.includes('force-release'))";
    browser.until("the answer has arrived", arrived, []).await;
    browser.js_later("setTimeout(arguments[0], 100)", []).await;
    assert_eq!(browser.text("#release-answer").await, "");
    second.check().expect("it is another lock");
    // This dialog works like any other.
    fill(&browser, "other", REASON).await;
    browser.click("#confirm").await;
    answers.send(StatusCode::OK).expect("the service runs");
    says(&browser, "was taken from its holder").await;
    browser.close().await;
}

/// The service continues after a proxy gives up, so the lock may be released nevertheless.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_without_an_answer_is_in_doubt() {
    let locks = LockManager::in_memory();
    let guard = hold(&locks, KEY, "feed").await;
    let (console, answers) = slow(with_actions(&locks));
    let browser = Browser::open(&below_locks(console).await).await;
    for (status, text) in [
        (StatusCode::GATEWAY_TIMEOUT, "It is not known whether the lock was released"),
        (StatusCode::NON_AUTHORITATIVE_INFORMATION, "It is not known whether the lock was released"),
        (StatusCode::TOO_MANY_REQUESTS, "Not released: the server answered 429."),
    ] {
        let again = if guard.check().is_ok() { None } else { Some(hold(&locks, KEY, "feed").await) };
        dialog(&browser, KEY).await;
        fill(&browser, KEY, REASON).await;
        browser.click("#confirm").await;
        answers.send(status).expect("the service runs");
        says(&browser, text).await;
        close(&browser).await;
        browser.until("the row is gone", "return !row(arguments[0])", [json!(KEY)]).await;
        drop(again);
    }
    browser.close_after(usize::MAX, "force-release").await;
}

async fn says(browser: &Browser, text: &str) {
    let answer = "return document.querySelector('#release-answer').textContent.includes(arguments[0])";
    browser.until(&format!("the answer {text:?}"), answer, [json!(text)]).await;
}

/// Opens the dialog of a row.
async fn dialog(browser: &Browser, key: &str) {
    browser.row(key).await;
    browser.click(&format!("#view-held [data-key='{key}'] .release")).await;
    browser.until("the dialog is open", "return document.querySelector('#release').open", []).await;
}

async fn fill(browser: &Browser, key: &str, reason: &str) {
    browser.write("#typed-key", key).await;
    browser.write("#reason", reason).await;
}

/// Closes the dialog, if it is still open.
async fn close(browser: &Browser) {
    if browser.js("return document.querySelector('#release').open", []).await == true {
        browser.press(&crate::browser::ESCAPE.to_string()).await;
    }
    browser.until("the dialog is closed", "return !document.querySelector('#release').open", []).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_there_is_no_button_and_a_request_is_refused() {
    let store = Store::redis();
    let locks = store.manager("console").await;
    let guard = hold(&locks, KEY, "feed").await;
    let browser = Browser::open(&below_locks(read_only(&locks)).await).await;
    browser.live().await;
    browser.row(KEY).await;
    assert_eq!(browser.js("return document.querySelectorAll('.release').length", []).await, 0);
    assert_eq!(browser.errors().await, [""; 0]);
    assert_eq!(request(&browser, KEY).await, 403);
    guard.check().expect("it is still held");
    browser.close_after(1, "force-release").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_another_key_is_refused_by_the_server_too() {
    let store = Store::redis();
    let locks = store.manager("console").await;
    let guard = hold(&locks, KEY, "feed").await;
    let browser = Browser::open(&below_locks(with_actions(&locks)).await).await;
    browser.row(KEY).await;
    assert_eq!(request(&browser, "import:fee").await, 400);
    guard.check().expect("it is still held");
    assert_eq!(request(&browser, KEY).await, 200);
    assert!(guard.check().is_err());
    browser.close_after(1, "force-release").await;
}

/// Sends the request of the dialog from a script, and returns its status.
async fn request(browser: &Browser, typed: &str) -> Value {
    let id = browser.js("return row(arguments[0]).dataset.id", [json!(KEY)]).await;
    let body = json!({ "key": KEY, "id": id, "typed_key": typed, "reason": REASON });
    let send = "const [body, done] = arguments;
        const headers = { 'content-type': 'application/json', 'x-lock-console': '1' };
        fetch('api/force-release', { method: 'POST', headers, body: JSON.stringify(body) })
            .then(answer => done(answer.status), error => done(String(error)))";
    browser.js_later(send, [body]).await
}
