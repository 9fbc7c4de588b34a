//! Runs axe-core, which checks a page against the rules for accessibility.

use lock_core::LockManager;

use crate::browser::{Browser, target};
use crate::site::{below_locks, read_only};

/// The rules of the standard and of good practice: labels, contrast, and the order of headings and of the focus.
const JUDGE: &str = "const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ['violations', 'incomplete'] }).then(
        found => done([...found.violations, ...found.incomplete].flatMap(rule => rule.nodes.slice(0, 3).map(node =>
            `${rule.id}: ${node.html.slice(0, 200)}: ${(node.failureSummary || '').replaceAll('\\n', ' ')}`))),
        error => done([String(error)]));";

/// Checks that axe-core finds no violation, and no rule that it cannot decide.
pub(crate) async fn finds_nothing(browser: &Browser, what: &str) {
    let found = findings(browser).await;
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

async fn findings(browser: &Browser) -> Vec<String> {
    if browser.js("return typeof axe", []).await == "undefined" {
        // WebDriver runs scripts even though the policy of the page forbids them.
        browser.js(&source(), []).await;
    }
    let found = browser.js_later(JUDGE, []).await;
    serde_json::from_value(found).expect("a list of texts")
}

fn source() -> String {
    let file = target().join("axe-core/axe.min.js");
    std::fs::read_to_string(&file).unwrap_or_else(|error| {
        panic!("axe-core is missing ({}: {error}); run: tests/axe-core.sh", file.display())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_spoilt_is_found() {
    let browser = Browser::open(&below_locks(read_only(&LockManager::in_memory())).await).await;
    browser.live().await;
    finds_nothing(&browser, "the page of no locks").await;
    let spoil = "document.querySelector('label[for=filter]').remove();
                 document.querySelector('#filter').placeholder = '';
                 document.querySelector('h2').style.color = '#aaa';
                 document.documentElement.removeAttribute('lang')";
    browser.js(spoil, []).await;
    let found = findings(&browser).await;
    for rule in ["label", "color-contrast", "html-has-lang"] {
        assert!(found.iter().any(|one| one.starts_with(&format!("{rule}:"))), "{rule}: {found:?}");
    }
    browser.close().await;
}
