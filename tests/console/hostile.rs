//! Keys that are written to harm the page. Any client of the store can choose such a key.

use lock_core::{LockGuard, LossReason};
use lock_tests::PATIENCE;
use serde_json::json;

use crate::browser::{Browser, Width};
use crate::site::{below_locks, with_actions};
use crate::store::{Store, hold};

/// The invisible characters of the keys.
const UNSEEN: [char; 11] = [
    '\u{202E}',
    '\u{3164}',
    '\u{115F}',
    '\u{2800}',
    '\u{180E}',
    '\u{34F}',
    '\u{E0041}',
    '\u{AD}',
    '\u{3000}',
    '\u{A0}',
    '\u{2003}',
];

fn keys() -> Vec<String> {
    vec![
        "<script>window.harmed=1</script>".to_owned(),
        "<img src=x onerror=window.harmed=1>".to_owned(),
        "\"'><b onmouseover=window.harmed=1>".to_owned(),
        "javascript:window.harmed=1".to_owned(),
        "order:\u{202E}gnp.exe".to_owned(),
        "\u{5D0}\u{5D1}:\u{645}:7".to_owned(),
        "two\nlines\tand a tab".to_owned(),
        // These characters have no width, or are spaces that a browser drops or that look like others.
        "order:\u{3164}\u{115F}\u{2800}\u{180E}\u{34F}\u{E0041}\u{AD}7".to_owned(),
        "order:\u{3000}\u{A0}\u{2003}8".to_owned(),
        " order:  9 ".to_owned(),
        r"order:\u{202e}".to_owned(),
        "${7*7}{{7*7}}&amp;%3Cb%3E".to_owned(),
        "__proto__".to_owned(),
        "x".repeat(500),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_keys_are_text_on_redis() {
    are_text(Store::redis()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_keys_are_text_on_postgres() {
    are_text(Store::postgres()).await;
}

async fn are_text(store: Store) {
    let worker = store.manager("</td><script>window.harmed=1</script>").await;
    let locks = store.manager("console").await;
    let mut guards = Vec::new();
    for key in keys() {
        guards.push(hold(&worker, &key, "<i onclick=window.harmed=1>").await);
    }
    let browser = Browser::open(&below_locks(with_actions(&locks)).await).await;
    browser.live().await;
    browser.rows(keys().len()).await;
    for key in keys() {
        browser.row(&key).await;
        let shown = "return row(arguments[0]).textContent.includes(arguments[1])";
        assert_eq!(browser.js(shown, [json!(key), json!(visible(&key))]).await, true, "{key:?}");
    }
    long_keys_can_be_read(&browser).await;
    // The views Heat and History only show locks of this process.
    for key in keys() {
        hold(&locks, &format!("own {key}"), "<u>").await.release().await.expect("an answer");
    }
    for view in ["heat", "history"] {
        browser.view(view).await;
        for key in keys() {
            let key = format!("own {key}");
            let first = key.split_once(':').map(|(first, _)| format!("{first}:*"));
            let text = if view == "heat" { visible(&first.unwrap_or(key)) } else { visible(&key) };
            let has = "return document.getElementById(arguments[0]).textContent.includes(arguments[1])";
            browser
                .until(&format!("{text} in {view}"), has, [json!(format!("view-{view}")), json!(text)])
                .await;
        }
        browser.picture(&format!("{}-hostile-{view}", store.name)).await;
    }
    browser.view("held").await;
    browser.picture(&format!("{}-hostile", store.name)).await;
    // The filter of the page accepts such a key as well.
    browser.write("#filter", "<script>").await;
    browser.rows(1).await;
    let clean = "return document.querySelectorAll('main script, main img, main b[onmouseover], main i, main u').length === 0 &&
                 window.harmed === undefined";
    for view in crate::views::VIEWS {
        browser.view(view).await;
        assert_eq!(browser.js(clean, []).await, true, "{view}");
    }
    releases_as_shown(&browser, guards.swap_remove(4)).await;
    browser.close().await;
}

/// The page shows three lines of a key, and the whole key on request.
async fn long_keys_can_be_read(browser: &Browser) {
    let cut = "const key = row('x'.repeat(500)).querySelector('.key');
               if (arguments[0]) key.focus();
               return key.scrollHeight > key.clientHeight + 1";
    browser.width(Width::Phone).await;
    assert_eq!(browser.js(cut, [json!(false)]).await, true);
    assert_eq!(browser.js(cut, [json!(true)]).await, false);
    browser.width(Width::Desk).await;
}

/// An operator can type the key in the form that the dialog shows.
async fn releases_as_shown(browser: &Browser, guard: LockGuard) {
    browser.view("held").await;
    browser.write("#filter", "order:\u{202E}").await;
    browser.until("the row", "return rows().length === 1 && !!row(arguments[0])", [json!(keys()[4])]).await;
    browser.click("#view-held .release").await;
    let shown = browser.text("#release-key").await;
    browser.write("#typed-key", &shown).await;
    browser.write("#reason", "stuck").await;
    browser.click("#confirm").await;
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
    assert_eq!(lost.expect("the holder is told"), LossReason::Forced);
}

/// Returns the key as the page shows it. Characters that are invisible or change the direction of the text appear as
/// numbers.
fn visible(key: &str) -> String {
    let chars: Vec<char> = key.chars().collect();
    let hides = |at: usize| match chars[at] {
        ' ' => at == 0 || at + 1 == chars.len() || chars[at + 1] == ' ',
        '\\' => chars[at..].starts_with(&['\\', 'u', '{']),
        char => char.is_control() || UNSEEN.contains(&char),
    };
    let each = chars.iter().enumerate();
    each.map(|(at, char)| if hides(at) { char.escape_unicode().to_string() } else { char.to_string() })
        .collect()
}
