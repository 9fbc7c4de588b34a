//! The page works at any path, and behind a proxy that changes the path.

use lock_core::LockManager;

use crate::browser::Browser;
use crate::site::{nested, proxy, read_only, serve};
use crate::store::hold;

#[tokio::test(flavor = "multi_thread")]
async fn below_any_prefix_and_behind_a_proxy() {
    let locks = LockManager::in_memory();
    let _guard = hold(&locks, "order:7", "feed").await;
    let console = || read_only(&locks);
    let root = serve(console()).await;
    let service = serve(nested("/locks", console())).await;
    let deep = serve(nested("/a/b%20c/locks", console())).await;
    let strips = proxy(&service, "/ops", "").await;
    let adds = proxy(&service, "", "/locks").await;
    let renames = proxy(&service, "/public", "/locks").await;
    let browser = Browser::open("about:blank").await;
    for page in [
        format!("{root}/"),
        format!("{service}/locks"),
        format!("{service}/locks/"),
        format!("{service}/locks?from=mail#held"),
        format!("{deep}/a/b%20c/locks"),
        format!("{deep}/a/b%20c/locks/"),
        format!("{strips}/ops/locks"),
        format!("{strips}/ops/locks/"),
        format!("{adds}/"),
        format!("{renames}/public/"),
    ] {
        browser.go(&page).await;
        browser.live().await;
        browser.row("order:7").await;
        assert_eq!(browser.errors().await, [""; 0], "{page}");
        // The next view has the same address.
        browser.view("stores").await;
        let url = browser.url().await;
        assert_eq!(url.split('#').next(), page.split('#').next());
        assert!(url.ends_with("#stores"), "{url}");
    }
    browser.close().await;
}
