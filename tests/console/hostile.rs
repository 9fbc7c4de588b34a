//! Keys that are written to harm the page: any client of the store can choose one.

use serde_json::json;

use crate::browser::Browser;
use crate::site::{below_locks, with_actions};
use crate::store::{Store, hold};

fn keys() -> Vec<String> {
    vec![
        "<script>window.harmed=1</script>".to_owned(),
        "<img src=x onerror=window.harmed=1>".to_owned(),
        "\"'><b onmouseover=window.harmed=1>".to_owned(),
        "javascript:window.harmed=1".to_owned(),
        "order:\u{202E}gnp.exe".to_owned(),
        "\u{5D0}\u{5D1}:\u{645}:7".to_owned(),
        "two\nlines\tand a tab".to_owned(),
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
    browser.picture(&format!("{}-hostile", store.name)).await;
    // The page filters by such a key as well.
    browser.write("#filter", "<script>").await;
    browser.rows(1).await;
    let clean = "return document.querySelectorAll('main script, main img, main b[onmouseover], main i').length === 0 &&
                 window.harmed === undefined";
    for view in crate::views::VIEWS {
        browser.view(view).await;
        assert_eq!(browser.js(clean, []).await, true, "{view}");
    }
    browser.close().await;
}

/// Returns the key as the page shows it: a character that cannot be seen, or that turns the text around, as its number.
fn visible(key: &str) -> String {
    let hides = |char: char| char.is_control() || ('\u{202A}'..='\u{202E}').contains(&char);
    key.chars()
        .map(|char| if hides(char) { format!("\\u{:04x}", u32::from(char)) } else { char.to_string() })
        .collect()
}
