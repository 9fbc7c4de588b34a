//! Tests that the console works at any path.

use axum::Router;
use http::StatusCode;
use lock_core::LockManager;

use crate::support::{data, get, read_only, text};

/// Returns the path of the script that the page at `path` names, as a browser resolves it.
async fn script(app: &Router, path: &str) -> String {
    let page = text(get(app, path).await).await;
    let (_, rest) = page.split_once("src=\"").expect("a script");
    let (relative, _) = rest.split_once('"').expect("its address");
    let (folder, _) = path.rsplit_once('/').expect("a slash");
    format!("{folder}/{}", relative.strip_prefix("./").expect("a relative address"))
}

#[tokio::test(start_paused = true)]
async fn the_page_finds_its_parts_at_any_path() {
    let locks = LockManager::in_memory();
    let service = |path| Router::new().nest_service(path, read_only(&locks));
    let nested = Router::new().nest("/locks", read_only(&locks));
    let deeper = Router::new().nest("/{tenant}", service("/a/locks"));
    let trailing = Router::new().nest("/locks/", read_only(&locks));
    for (name, app, pages) in [
        ("root", read_only(&locks), &["/"][..]),
        ("merge", Router::new().merge(read_only(&locks)), &["/"]),
        ("nest_service", service("/locks"), &["/locks", "/locks/"]),
        ("nest", nested, &["/locks"]),
        ("nest with a slash", trailing, &["/locks/"]),
        ("deeper", deeper, &["/acme/a/locks", "/acme/a/locks/"]),
    ] {
        for page in pages {
            let script = script(&app, page).await;
            assert!(script.ends_with("/console.js"), "{name} {page}: {script}");
            assert_eq!(get(&app, &script).await.status(), StatusCode::OK, "{name} {page}: {script}");
            // The script loads the data relative to its own address.
            let state = script.replace("console.js", "api/state");
            assert_eq!(data(&app, &state).await["store"], "memory", "{name} {page}");
        }
    }
}

/// The proxy removes the prefix: the service receives the path without it, and the browser uses the full path.
#[tokio::test(start_paused = true)]
async fn the_addresses_are_relative() {
    let page = text(get(&read_only(&LockManager::in_memory()), "/").await).await;
    assert!(page.contains("src=\"./console.js\"") && page.contains("href=\"./console.css\""), "{page}");
}
