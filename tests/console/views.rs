//! Checks each view with axe-core and saves a picture of it, light and dark, on a desktop and on a phone.

use std::time::Duration;

use lock_core::{LockManager, strategy};
use serde_json::json;

use crate::axe;
use crate::browser::{Browser, Width};
use crate::site::{below_locks, with_actions};
use crate::store::{Crowd, Store};

pub(crate) const VIEWS: [&str; 6] = ["held", "waiting", "heat", "history", "stores", "doctor"];

#[tokio::test(flavor = "multi_thread")]
async fn each_view_on_redis() {
    looks_well(Store::redis()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_view_on_postgres() {
    looks_well(Store::postgres()).await;
}

async fn looks_well(store: Store) {
    let _crowd = Crowd::start(&store, 40, 10).await;
    let locks = store.manager("checkout").await;
    let browser = Browser::open(&below_locks(with_actions(&locks)).await).await;
    browser.live().await;
    busy(&locks).await;
    for width in [Width::Desk, Width::Phone] {
        browser.width(width).await;
        for scheme in ["light", "dark"] {
            browser.scheme(scheme).await;
            for view in VIEWS {
                let what = format!("{}-{view}-{}-{scheme}", store.name, format!("{width:?}").to_lowercase());
                browser.view(view).await;
                filled(&browser, view).await;
                browser.picture(&what).await;
                axe::finds_nothing(&browser, &what).await;
                fits(&browser, &what).await;
                reads_as_a_table(&browser, &what).await;
            }
            let what = format!("{}-release-{}-{scheme}", store.name, format!("{width:?}").to_lowercase());
            dialog(&browser, &what).await;
        }
    }
    browser.width(Width::Picture).await;
    browser.scheme("light").await;
    browser.view("held").await;
    browser.js("document.activeElement.blur()", []).await;
    browser.picture(&format!("{}-picture", store.name)).await;
    browser.close().await;
}

/// Checks the dialog over the list.
async fn dialog(browser: &Browser, what: &str) {
    browser.view("held").await;
    browser.click("#view-held [data-key='order:000'] .release").await;
    browser.until("the dialog is open", "return document.querySelector('#release').open", []).await;
    browser.picture(what).await;
    axe::finds_nothing(browser, what).await;
    fits(browser, what).await;
    browser.press(&crate::browser::ESCAPE.to_string()).await;
    browser.until("the dialog is closed", "return !document.querySelector('#release').open", []).await;
}

/// Waits until a view shows data.
async fn filled(browser: &Browser, view: &str) {
    // The button of the doctor is disabled while the doctor runs.
    let rows = "const view = document.getElementById('view-' + arguments[0]);
                return !!view.querySelector('tbody tr') && !view.querySelector('[aria-disabled]')";
    browser.until(&format!("the view {view} shows something"), rows, [json!(view)]).await;
}

/// Checks that the page does not scroll sideways. A wide part must scroll inside its own box.
async fn fits(browser: &Browser, what: &str) {
    let wider = browser.js("return document.documentElement.scrollWidth - window.innerWidth", []).await;
    assert!(wider.as_f64().is_some_and(|wider| wider <= 0.0), "{what} is {wider} pixels too wide");
}

/// In Safari, a style that displays rows and cells as blocks removes their roles, except for explicit roles.
async fn reads_as_a_table(browser: &Browser, what: &str) {
    let without = "return [...document.querySelectorAll('table, thead, tbody, tr, th, td')]
        .filter(element => !element.hasAttribute('role')).map(element => element.outerHTML.slice(0, 100))";
    assert_eq!(browser.js(without, []).await, json!([]), "{what}");
}

/// Acquires locks of several templates. Some of the requests are refused.
async fn busy(locks: &LockManager) {
    for round in 0..12 {
        for template in ["order:<id>", "stock:<sku>", "invoice:<tenant>:<id>"] {
            let key = template.replace('<', "busy-").replace('>', "");
            let request = || locks.lock(key.as_str()).template(template).strategy(strategy::fail_fast());
            let guard = request().acquire().await.expect("the key is free");
            if round % 3 == 0 {
                // The holder belongs to this task, so the request of another task is refused.
                let refused = tokio::spawn(request().acquire()).await.expect("no panic");
                assert!(refused.is_err());
            }
            tokio::time::sleep(Duration::from_millis(round)).await;
            guard.release().await.expect("an answer");
        }
    }
}
