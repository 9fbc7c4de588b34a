//! Tests the options that a layer takes from a profile, and the effect of a reload on the next request.

use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::routing::get as on_get;
use http::StatusCode;
use lock_axum::LockLayer;
use lock_core::backend::memory::Memory;
use lock_core::{Kind, LockManager};

use crate::support::{Log, get, send};

/// A configuration file with one profile, `p`. The file is removed when this value is dropped.
struct File(PathBuf);

impl File {
    fn new(test: &str) -> Self {
        Self(std::env::temp_dir().join(format!("layer-{test}-{}.toml", std::process::id())))
    }

    fn write(&self, options: &str) {
        std::fs::write(&self.0, format!("[profile.p]\n{options}")).unwrap();
    }

    fn manager(&self, options: &str) -> LockManager {
        self.write(options);
        LockManager::builder(Memory::new()).config(&self.0).build().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn app(layer: LockLayer) -> Router {
    Router::new().route("/", on_get(async || "done").layer(layer.check().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn the_kind_is_that_of_the_profile_unless_the_layer_has_one() {
    let file = File::new("kind");
    let locks = file.manager("kind = \"read\"");
    let layer = || LockLayer::new(locks.clone()).key("k").profile("p");
    let _reader = locks.read("k").acquire().await.unwrap();
    assert_eq!(send(&app(layer()), get("/")).await.status(), StatusCode::OK);
    assert_eq!(send(&app(layer().kind(Kind::Write)), get("/")).await.status(), StatusCode::CONFLICT);
    let several = LockLayer::new(locks.clone()).keys(["a", "b"]).profile("p").check().unwrap_err();
    assert!(several.to_string().contains("several keys have one holder each"), "{several}");
}

#[tokio::test(start_paused = true)]
async fn what_a_request_takes_is_that_of_the_profile_unless_the_layer_has_a_number_or_a_kind() {
    let file = File::new("take");
    let locks = file.manager("kind = \"semaphore\"\npermits = 4\ntake = 3");
    let layer = || LockLayer::new(locks.clone()).key("k").profile("p");
    let _two = locks.semaphore("k", 4).take(2).acquire().await.unwrap();
    for (layer, status) in [
        (layer(), StatusCode::CONFLICT),
        (layer().take(2), StatusCode::OK),
        (layer().kind(Kind::Semaphore { permits: 4 }), StatusCode::OK),
    ] {
        assert_eq!(send(&app(layer), get("/")).await.status(), status);
    }
    let error = layer().take(5).check().unwrap_err().to_string();
    assert!(error.contains("take is 5, and the semaphore has 4 permits"), "{error}");
    let error = layer().kind(Kind::Fair).take(2).check().unwrap_err().to_string();
    assert!(error.contains("a lock of kind fair has no permits"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_reload_changes_the_next_request() {
    let file = File::new("reload");
    let locks = file.manager("ttl = \"5s\"");
    let app = app(LockLayer::new(locks.clone()).key("k").profile("p"));
    let held = locks.lock("k").acquire().await.unwrap();
    let waited = async |app: &Router| {
        let start = tokio::time::Instant::now();
        let status = send(app, get("/")).await.status();
        (status, start.elapsed().as_millis() / 100)
    };
    assert_eq!(waited(&app).await, (StatusCode::CONFLICT, 0), "a layer fails at once");
    file.write("strategy = \"retry\"\nwait = \"300ms\"");
    locks.reload().unwrap();
    assert_eq!(waited(&app).await, (StatusCode::CONFLICT, 3), "the profile waits");
    file.write("wait = \"200ms\"");
    locks.reload().unwrap();
    assert_eq!(waited(&app).await, (StatusCode::CONFLICT, 2), "with the strategy of the manager");
    file.write("backoff = { base = \"50ms\", max = \"50ms\" }\nmax_waiters = 1");
    locks.reload().unwrap();
    assert_eq!(waited(&app).await, (StatusCode::CONFLICT, 50), "pauses are for who tries again");
    file.write("");
    locks.reload().unwrap();
    assert_eq!(waited(&app).await, (StatusCode::CONFLICT, 0), "as before");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_handler_ends_as_the_profile_says_when_its_lock_is_lost() {
    let file = File::new("lost");
    let short = "ttl = \"100ms\"\nrenew = false\n";
    let locks = file.manager(&format!("{short}on_lost = \"finish\""));
    let log = Log::default();
    let handler = {
        let log = log.clone();
        async move || {
            tokio::time::sleep(Duration::from_millis(300)).await;
            log.add("finished");
        }
    };
    let layer = LockLayer::new(locks.clone()).key("k").profile("p");
    let app = Router::new().route("/", on_get(handler).layer(layer));
    assert_eq!(send(&app, get("/")).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(log.all(), ["finished"]);
    file.write(short);
    locks.reload().unwrap();
    assert_eq!(send(&app, get("/")).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.all(), ["finished"], "the second was dropped");
}
