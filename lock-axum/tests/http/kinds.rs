//! Tests how many requests are served at the same time: kinds, several keys, waiters.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::{MethodRouter, get as on_get};
use http::{Request, StatusCode};
use lock_axum::{LockHandle, LockLayer};
use lock_core::backend::memory::Memory;
use lock_core::{Kind, LockManager, Profile, strategy};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use crate::support::{Remote, get, is_free, send, text};

/// A handler that keeps its requests waiting until the test releases them.
struct Inside {
    came: Arc<Barrier>,
    go: Arc<Barrier>,
}

impl Inside {
    /// Returns a handler for this number of requests at a time.
    fn of(requests: usize) -> Self {
        let barrier = || Arc::new(Barrier::new(requests + 1));
        Self { came: barrier(), go: barrier() }
    }

    fn handler(&self) -> MethodRouter {
        let (came, go) = (Arc::clone(&self.came), Arc::clone(&self.go));
        on_get(async move || {
            came.wait().await;
            go.wait().await;
            "served"
        })
    }

    /// Waits until all requests have reached the handler.
    async fn all_came(&self) {
        let came = tokio::time::timeout(Duration::from_secs(60), self.came.wait());
        came.await.expect("all requests are served at one time");
    }

    async fn let_out(&self) {
        self.go.wait().await;
    }
}

fn spawn(app: &Router, path: &'static str) -> JoinHandle<StatusCode> {
    let app = app.clone();
    tokio::spawn(async move { send(&app, get(path)).await.status() })
}

#[tokio::test(start_paused = true)]
async fn readers_are_served_together_and_a_writer_alone() {
    let locks = LockManager::in_memory();
    let page = |kind| LockLayer::new(locks.clone()).key("page:<id>").kind(kind);
    let (readers, writer) = (Inside::of(2), Inside::of(1));
    let app = Router::new()
        .route("/read/{id}", readers.handler().route_layer(page(Kind::Read)))
        .route("/write/{id}", writer.handler().route_layer(page(Kind::Write)));

    let read = [spawn(&app, "/read/7"), spawn(&app, "/read/7")];
    readers.all_came().await;
    assert_eq!(send(&app, get("/write/7")).await.status(), StatusCode::CONFLICT);
    readers.let_out().await;
    for read in read {
        assert_eq!(read.await.unwrap(), StatusCode::OK);
    }

    let write = spawn(&app, "/write/7");
    writer.all_came().await;
    assert_eq!(send(&app, get("/write/7")).await.status(), StatusCode::CONFLICT);
    let response = send(&app, get("/read/7")).await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert!(text(response).await.contains("page:<id>"));
    writer.let_out().await;
    assert_eq!(write.await.unwrap(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_serves_as_many_as_it_has_permits() {
    let locks = LockManager::in_memory();
    let inside = Inside::of(3);
    let layer = LockLayer::new(locks.clone()).key("report").kind(Kind::Semaphore { permits: 3 });
    let app = Router::new().route("/report", inside.handler().route_layer(layer));
    let served = [spawn(&app, "/report"), spawn(&app, "/report"), spawn(&app, "/report")];
    inside.all_came().await;
    let response = send(&app, get("/report")).await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert!(response.headers().contains_key("retry-after"));
    inside.let_out().await;
    for served in served {
        assert_eq!(served.await.unwrap(), StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_takes_several_permits_at_once() {
    let locks = LockManager::in_memory();
    let inside = Inside::of(2);
    let layer = || LockLayer::new(locks.clone()).key("report").kind(Kind::Semaphore { permits: 4 });
    let app = Router::new()
        .route("/large", inside.handler().route_layer(layer().take(3).check().unwrap()))
        .route("/small", inside.handler().route_layer(layer().check().unwrap()));
    let served = [spawn(&app, "/large"), spawn(&app, "/small")];
    inside.all_came().await;
    assert_eq!(locks.semaphore("report", 4).available().await.unwrap(), 0);
    assert_eq!(send(&app, get("/small")).await.status(), StatusCode::CONFLICT);
    inside.let_out().await;
    for served in served {
        assert_eq!(served.await.unwrap(), StatusCode::OK);
    }
    let one = locks.semaphore("report", 4).take(2).acquire().await.unwrap();
    assert_eq!(send(&app, get("/large")).await.status(), StatusCode::CONFLICT, "all of them or none");
    one.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fair_route_serves_in_the_order_of_arrival() {
    let locks = LockManager::in_memory();
    let layer = LockLayer::new(locks.clone()).key("queue").kind(Kind::Fair).wait(Duration::from_secs(60));
    let next = Arc::new(AtomicUsize::new(0));
    let handler = async move || {
        let place = next.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
        place.to_string()
    };
    let app = Router::new().route("/", on_get(handler).route_layer(layer));
    let holder = locks.fair("queue").acquire().await.unwrap();
    let mut served = Vec::new();
    for _ in 0..6 {
        let app = app.clone();
        served.push(tokio::spawn(async move { text(send(&app, get("/")).await).await }));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    holder.release().await.unwrap();
    // A new request could get the key before the first waiter retries. But it must queue behind the last waiter.
    assert!(locks.fair("queue").try_acquire().await.unwrap().is_none());
    for (place, served) in served.into_iter().enumerate() {
        assert_eq!(served.await.unwrap(), place.to_string());
    }
}

#[tokio::test]
async fn a_layer_inside_of_another_enters_as_the_kinds_allow() {
    let locks = LockManager::in_memory();
    let page = |kind| LockLayer::new(locks.clone()).key("page:<id>").kind(kind);
    let nested = |outer, inner| on_get(async || "served").route_layer(page(inner)).layer(page(outer));
    let app = Router::new()
        .route("/a/{id}", nested(Kind::Write, Kind::Read))
        .route("/b/{id}", nested(Kind::Read, Kind::Read))
        .route("/c/{id}", nested(Kind::Read, Kind::Write));
    assert_eq!(send(&app, get("/a/7")).await.status(), StatusCode::OK);
    assert_eq!(send(&app, get("/b/7")).await.status(), StatusCode::OK);
    let upgrade = send(&app, get("/c/7")).await;
    assert_eq!(upgrade.status(), StatusCode::INTERNAL_SERVER_ERROR, "never a wait for itself");
    assert!(is_free(&locks, "page:7").await);
}

fn both(locks: &LockManager) -> LockLayer {
    LockLayer::new(locks.clone()).keys(["account:<from>", "account:<header.to>"])
}

fn transfer(to: &str) -> Request<axum::body::Body> {
    let mut request = get("/from/1");
    request.headers_mut().insert("to", to.parse().unwrap());
    request
}

#[tokio::test]
async fn several_keys_are_locked_together() {
    let locks = LockManager::in_memory();
    let handler = {
        let locks = locks.clone();
        async move |_: LockHandle| {
            let mut held = Vec::new();
            for key in ["account:1", "account:2", "account:a%3Ab", "account:3"] {
                let asked = locks.lock(key).strategy(strategy::fail_fast()).acquire();
                if tokio::spawn(asked).await.unwrap().is_err() {
                    held.push(key);
                }
            }
            held.join(" ")
        }
    };
    let app = Router::new().route("/from/{from}", on_get(handler).route_layer(both(&locks)));
    for (to, held) in [("2", "account:1 account:2"), ("a:b", "account:1 account:a%3Ab"), ("1", "account:1")] {
        let response = send(&app, transfer(to)).await;
        assert_eq!(text(response).await, held, "{to}");
    }
    assert_eq!(locks.held(), 0);
}

#[tokio::test]
async fn where_one_of_several_keys_is_held_none_is_taken() {
    let locks = LockManager::in_memory();
    let app = Router::new().route("/from/{from}", on_get(async || "served").route_layer(both(&locks)));
    for other in ["account:1", "account:2"] {
        let held = locks.lock(other).acquire().await.unwrap();
        let response = send(&app, transfer("2")).await;
        assert_eq!(response.status(), StatusCode::CONFLICT, "{other}");
        let body = text(response).await;
        assert!(body.contains(r#""lock":"account:<from>, account:<header.to>""#), "{body}");
        for key in ["account:1", "account:2"] {
            assert_eq!(is_free(&locks, key).await, key != other, "{key}");
        }
        held.release().await.unwrap();
    }
    assert_eq!(send(&app, transfer("2")).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_layer_inside_of_several_keys_enters_and_one_that_adds_a_key_is_refused() {
    let locks = LockManager::in_memory();
    let all = |keys: &[&str]| LockLayer::new(locks.clone()).keys(keys);
    let nested = |outer, inner| on_get(async || "served").route_layer(all(inner)).layer(all(outer));
    let app = Router::new()
        .route("/less", nested(&["a", "b"], &["b"]))
        .route("/same", nested(&["a", "b"], &["b", "a"]))
        .route("/more", nested(&["a", "b"], &["b", "c"]));
    assert_eq!(send(&app, get("/less")).await.status(), StatusCode::OK);
    assert_eq!(send(&app, get("/same")).await.status(), StatusCode::OK);
    let more = send(&app, get("/more")).await;
    assert_eq!(more.status(), StatusCode::INTERNAL_SERVER_ERROR, "never a wait for itself");
    assert_eq!(locks.held(), 0);
}

#[tokio::test]
async fn what_is_wrong_with_one_of_several_keys_is_wrong_with_the_request() {
    let locks = LockManager::in_memory();
    let app = Router::new().route("/from/{from}", on_get(async || "served")).layer(both(&locks));
    let response = send(&app, get("/from/1")).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert!(text(response).await.contains("The header `to` is missing."));
    assert_eq!(send(&app, get("/nowhere")).await.status(), StatusCode::NOT_FOUND);

    // The first template needs the header, which this request lacks. A request without a route still gets its 404, not
    // a 400.
    let layer = LockLayer::new(locks).keys(["account:<header.to>", "account:<from>"]);
    let app = Router::new().route("/from/{from}", on_get(async || "served")).layer(layer);
    assert_eq!(send(&app, get("/nowhere")).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(send(&app, get("/from/1")).await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_queue_for_several_keys_has_an_end_too() {
    let locks = LockManager::in_memory();
    let layer = both(&locks).wait(Duration::from_secs(60)).max_waiters(1);
    let app = Router::new().route("/from/{from}", on_get(async || "served").route_layer(layer));
    let holder = locks.lock("account:1").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let app = app.clone();
        async move { send(&app, transfer("2")).await.status() }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let response = send(&app, transfer("2")).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(text(response).await.contains("lock-overloaded"));
    holder.release().await.unwrap();
    assert_eq!(waiting.await.unwrap(), StatusCode::OK);
}

#[test]
fn what_the_store_does_not_have_is_found_at_start_up() {
    let store = Remote::default();
    let new = || LockLayer::new(store.manager());
    for (layer, says) in [
        (new().key("a").kind(Kind::Fair), "no fair locks"),
        (new().key("a").kind(Kind::Read), "no read locks"),
        (new().key("a").kind(Kind::Semaphore { permits: 2 }), "no semaphore(2) locks"),
        (new().keys(["a", "b"]), "cannot lock several keys at once"),
        (new().key("a").fencing(true), "gives no fencing tokens"),
    ] {
        refused(layer, says);
    }
    assert!(store.log.all().is_empty(), "the store was asked");
}

fn refused(layer: LockLayer, says: &str) {
    let error = layer.check().unwrap_err();
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn what_contradicts_itself_is_found_at_start_up() {
    let locks = LockManager::builder(Memory::new())
        .profile("first", Profile::new().strategy(strategy::fail_fast()))
        .profile("unrenewed", Profile::new().renew(false));
    let locks = locks.build().unwrap();
    let new = || LockLayer::new(locks.clone());
    let wait = Duration::from_secs(1);
    for (layer, says) in [
        (new().keys(["a", "b"]).kind(Kind::Read), "kind is read, but several keys have one holder each"),
        (new().kind(Kind::Fair).keys(["a"]), "kind is fair, but several keys have one holder each"),
        (new().key("a").kind(Kind::Semaphore { permits: 0 }), "0 permits"),
        (new().key("a").wait(wait).max_waiters(0), "max_waiters is 0"),
        (new().key("a").max_waiters(64), "no request waits"),
        (new().key("a").ttl(Duration::ZERO), "ttl is 0"),
        (new().key("a").wait(wait).profile("first"), "strategy `fail_fast` takes no limit"),
        (new().key("a").min_hold(wait * 60).profile("unrenewed"), "longer than the ttl"),
    ] {
        refused(layer, says);
    }
    for layer in [
        new().keys(["a", "b"]).kind(Kind::Reentrant),
        new().keys(["a", "b"]).kind(Kind::Write),
        new().key("a").kind(Kind::Semaphore { permits: 1 }),
        new().key("a").wait(wait).max_waiters(1),
        new().key("a").strategy(strategy::wait()).max_waiters(1),
    ] {
        assert!(layer.check().is_ok());
    }
    assert!(new().try_keys(["a", "b:<c"]).unwrap_err().to_string().contains("not closed"));
    let panic = catch_unwind(AssertUnwindSafe(|| new().keys(["a", "a"]))).unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("the template `a` twice"));
}

#[tokio::test]
async fn a_request_that_writes_to_several_things_has_no_reader_of_one_beside_it() {
    let locks = LockManager::in_memory();
    let both = LockLayer::new(locks.clone()).keys(["account:<from>", "account:<to>"]).kind(Kind::Write);
    let show = LockLayer::new(locks.clone()).key("account:<id>").kind(Kind::Read);
    let other = locks.clone();
    let app = Router::new()
        .route("/transfer/{from}/{to}", on_get(async || "moved").route_layer(both.check().unwrap()))
        .route(
            "/accounts/{id}",
            on_get(async move || {
                let transfer = other.all(["account:1", "account:2"]).try_acquire();
                tokio::spawn(transfer).await.unwrap().unwrap().is_none().to_string()
            })
            .route_layer(show.check().unwrap()),
        );
    assert_eq!(text(send(&app, get("/accounts/2")).await).await, "true", "it waits for the reader");
    let reader = locks.read("account:2").acquire().await.unwrap();
    assert_eq!(send(&app, get("/transfer/1/2")).await.status(), StatusCode::CONFLICT);
    reader.release().await.unwrap();
    assert_eq!(send(&app, get("/transfer/1/2")).await.status(), StatusCode::OK);
}
