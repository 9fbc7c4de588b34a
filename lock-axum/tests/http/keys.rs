//! Tests which key a request locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::routing::{MethodRouter, get as on_get, options, post};
use http::{Method, Request, StatusCode};
use lock_axum::{LockHandle, LockLayer};
use lock_core::{LockError, LockManager, distributed_lock};
use proptest::prelude::*;
use tokio::sync::Notify;

use crate::support::{get, request, send, text, until};

/// Returns a route that answers with the key. `route_layer` does not apply to `any`, so the route has a method.
fn key() -> MethodRouter {
    let key =
        async |lock: Option<LockHandle>| lock.map_or("not locked".to_owned(), |lock| lock.key().to_owned());
    on_get(key).put(key)
}

fn layer(template: &str) -> LockLayer {
    LockLayer::new(LockManager::in_memory()).key(template)
}

#[tokio::test]
async fn path_parameters_are_decoded_by_the_router_and_encoded_in_the_key() {
    let app = Router::new()
        .route("/orders/{id}", key().route_layer(layer("order:<id>")))
        .route("/t/{tenant}/orders/{id}", key().route_layer(layer("order:<tenant>:<id>")))
        .route("/files/{*path}", key().route_layer(layer("file:<path>")));
    for (path, locked) in [
        ("/orders/42", "order:42"),
        ("/orders/a:b", "order:a%3Ab"),
        ("/orders/a%3Ab", "order:a%3Ab"),
        ("/orders/a%2Fb", "order:a%2Fb"),
        ("/orders/%C3%A9", "order:%C3%A9"),
        ("/orders/%2541", "order:%2541"),
        ("/t/acme/orders/7", "order:acme:7"),
        ("/t/a:b/orders/c", "order:a%3Ab:c"),
        ("/t/a/orders/b:c", "order:a:b%3Ac"),
        ("/files/a/b.txt", "file:a%2Fb.txt"),
    ] {
        assert_eq!(text(send(&app, get(path)).await).await, locked, "{path}");
    }
}

#[tokio::test]
async fn a_path_that_is_not_utf_8_is_the_clients_fault() {
    let app = Router::new().route("/orders/{id}", key().route_layer(layer("order:<id>")));
    let response = send(&app, get("/orders/%ff")).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let body = text(response).await;
    assert!(body.contains("lock-key-invalid") && body.contains("not UTF-8"), "{body}");
}

#[tokio::test]
async fn headers_query_method_and_route_are_values_too() {
    let template = "<header.x-tenant>:<query.q>:<method>:<route>";
    let app = Router::new().nest("/api", Router::new().route("/orders/{id}", key()).layer(layer(template)));
    let with = |uri: &str, tenant: &[&str]| {
        let mut request = Request::put(uri);
        for tenant in tenant {
            request = request.header("x-tenant", *tenant);
        }
        request.body(axum::body::Body::empty()).unwrap()
    };
    let response = send(&app, with("/api/orders/1?a=b&q=x+y%3A", &["acme:1"])).await;
    assert_eq!(text(response).await, "acme%3A1:x%20y%3A:PUT:%2Fapi%2Forders%2F%7Bid%7D");
    for (uri, tenant, says) in [
        ("/api/orders/1?q=1", &[][..], "The header `x-tenant` is missing."),
        ("/api/orders/1?q=1", &[""], "The header `x-tenant` is empty."),
        ("/api/orders/1?q=1", &["a", "a"], "The header `x-tenant` occurs more than once."),
        ("/api/orders/1?q=1", &["é"], "The header `x-tenant` has characters"),
        ("/api/orders/1?q=1", &["a\tb"], "The header `x-tenant` has characters"),
        ("/api/orders/1", &["a"], "The query parameter `q` is missing."),
        ("/api/orders/1?q=1&q=2", &["a"], "The query parameter `q` occurs more than once."),
    ] {
        let response = send(&app, with(uri, tenant)).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let body = text(response).await;
        assert!(body.contains(says), "{body}");
    }
}

#[tokio::test]
async fn nested_routers_give_outer_and_inner_parameters_wherever_the_layer_is() {
    let template = "order:<tenant>:<id>";
    let inner = || Router::new().route("/orders/{id}", key());
    let outer = |inner| Router::new().nest("/t/{tenant}", inner);
    for app in [
        outer(inner()).layer(layer(template)),
        outer(inner()).route_layer(layer(template)),
        outer(inner().layer(layer(template))),
        outer(inner().route_layer(layer(template))),
        outer(Router::new().route("/orders/{id}", key().layer(layer(template)))),
        outer(Router::new().route("/orders/{id}", key().route_layer(layer(template)))),
    ] {
        assert_eq!(text(send(&app, get("/t/acme/orders/7")).await).await, "order:acme:7");
    }
}

#[tokio::test]
async fn a_request_without_a_route_is_not_locked() {
    let locks = LockManager::in_memory();
    let layer = || LockLayer::new(locks.clone()).key("order:<id>");
    // The test holds every key that a request without a route could lock. If the layer tried to lock one, the answer
    // would be 409 instead of 404.
    let holders = [locks.lock("order:").acquire().await, locks.lock("order:42").acquire().await];
    for app in [
        Router::new().route("/orders/{id}", key()).layer(layer()),
        Router::new().route("/orders/{id}", key()).route_layer(layer()),
        Router::new().route("/orders/{id}", key().layer(layer())),
    ] {
        assert_eq!(send(&app, get("/other/42")).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(send(&app, get("/orders/42")).await.status(), StatusCode::CONFLICT);
    }
    let app = Router::new().route("/orders/{id}", key()).layer(LockLayer::new(locks.clone()).key("<route>"));
    assert_eq!(send(&app, get("/other/42")).await.status(), StatusCode::NOT_FOUND);
    assert!(holders.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_wrong_method_is_not_locked_by_a_route_layer_of_the_method() {
    let locks = LockManager::in_memory();
    let _holder = locks.lock("order:42").acquire().await.unwrap();
    let layer = || LockLayer::new(locks.clone()).key("order:<id>");
    let app = Router::new()
        .route("/a/{id}", post(async || "").route_layer(layer()))
        .route("/b/{id}", post(async || "").layer(layer()));
    assert_eq!(send(&app, get("/a/42")).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(send(&app, get("/b/42")).await.status(), StatusCode::CONFLICT);
}

#[tokio::test]
async fn every_method_is_locked() {
    let locks = LockManager::in_memory();
    let _holder = locks.lock("sweep").acquire().await.unwrap();
    let routes = on_get(async || "").merge(options(async || "allowed"));
    let app = Router::new().route("/sweep", routes.layer(LockLayer::new(locks.clone()).key("sweep")));
    assert_eq!(send(&app, request(Method::OPTIONS, "/sweep")).await.status(), StatusCode::CONFLICT);
    assert_eq!(send(&app, request(Method::HEAD, "/sweep")).await.status(), StatusCode::CONFLICT);
    assert_eq!(send(&app, get("/sweep")).await.status(), StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_parameter_that_the_route_lacks_or_has_twice_is_the_programs_fault() {
    let template = || layer("order:<id>");
    let app = Router::new()
        .route("/orders/{order_id}", key().route_layer(template()))
        .nest("/t/{id}", Router::new().route("/orders/{id}", key().route_layer(template())));
    for path in ["/orders/42", "/t/1/orders/2"] {
        let response = send(&app, get(path)).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = text(response).await;
        assert!(!body.contains("order") && !body.contains("id"), "{body}");
    }
}

#[test]
fn a_wrong_template_is_found_at_start_up() {
    let new = || LockLayer::new(LockManager::in_memory());
    assert!(new().try_key("order:<id").unwrap_err().to_string().contains("not closed"));
    let panic = std::panic::catch_unwind(|| new().key("order:<ext.Tenant>")).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("no extension `Tenant` is registered"), "{text}");
}

#[tokio::test]
async fn a_404_stays_one_whatever_the_client_left_out() {
    let locks = LockManager::in_memory();
    let layer = LockLayer::new(locks).key("<header.x-tenant>:<id>");
    let app = Router::new().route("/orders/{id}", on_get(async || "")).layer(layer);
    assert_eq!(send(&app, get("/nowhere")).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(send(&app, get("/orders/42")).await.status(), StatusCode::BAD_REQUEST);
}

/// Returns the key that a layer with this template locks for `/orders/{id}`, or `None` if the answer is a 400.
async fn locked(template: &str, id: &str) -> Option<String> {
    let app = Router::new().route("/orders/{id}", key().route_layer(layer(template)));
    let answer = send(&app, get(&format!("/orders/{id}"))).await;
    match answer.status() {
        StatusCode::OK => Some(text(answer).await),
        StatusCode::BAD_REQUEST => None,
        other => panic!("{template} {id}: {other}"),
    }
}

#[tokio::test]
async fn one_thing_has_one_key_however_it_is_written() {
    const ID: &str = "order:67e55044-10b1-426f-9247-bb680e5fe0c8";
    for (template, id, expected) in [
        ("order:<id>", "1", Some("order:1")),
        ("order:<id>", "01", None),
        ("order:<id>", "%2B1", None),
        ("order:<id>", "+1", None),
        ("order:<id>", "-0", None),
        ("order:<id>", "1a", Some("order:1a")),
        ("order:<id:text>", "01", Some("order:01")),
        ("order:<id:u64>", "1", Some("order:1")),
        ("order:<id:u64>", "%30%301", Some("order:1")),
        ("order:<id:u64>", "+1", Some("order:1")),
        ("order:<id:u64>", "-1", None),
        ("order:<id:u64>", "one", None),
        ("order:<id:i64>", "-01", Some("order:-1")),
        ("order:<id:u8>", "256", None),
        ("order:<id:lower>", "ACME", Some("order:acme")),
        ("order:<id:uuid>", "67e55044-10b1-426f-9247-bb680e5fe0c8", Some(ID)),
        ("order:<id:uuid>", "67E5504410B1426F9247BB680E5FE0C8", Some(ID)),
        ("order:<id:uuid>", "%7B67e55044-10b1-426f-9247-bb680e5fe0c8%7D", Some(ID)),
        ("order:<id:uuid>", "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8", Some(ID)),
        ("order:<id:uuid>", "67e5", None),
        ("<uri.path>", "%37", Some("%2Forders%2F7")),
        ("<uri.path>", "07", None),
        ("<uri.path>", "%2b7", None),
        ("<uri.path:text>", "07", Some("%2Forders%2F07")),
        ("order:<id>", "67E55044-10B1-426F-9247-BB680E5FE0C8", None),
        ("<uri.path>", "a%2fb", Some("%2Forders%2Fa%252Fb")),
    ] {
        assert_eq!(locked(template, id).await.as_deref(), expected, "{template} {id}");
    }
    let tenants = Router::new().route("/", key().route_layer(layer("<header.x-tenant:lower>:<query.q:u32>")));
    for (tenant, query) in [("acme", "1"), ("ACME", "01"), ("Acme", "%2B1")] {
        let request = Request::get(format!("/?q={query}")).header("x-tenant", tenant);
        let answer = send(&tenants, request.body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!(text(answer).await, "acme:1", "{tenant} {query}");
    }
}

#[tokio::test]
async fn a_refused_value_is_named_and_not_repeated() {
    let app = Router::new().route("/orders/{id}", key().route_layer(layer("order:<id:u64>")));
    let answer = send(&app, get("/orders/s3cr3t")).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    let body = text(answer).await;
    let says = "The path parameter `id` is not a whole number from 0 to 18446744073709551615.";
    assert!(body.contains(says) && !body.contains("s3cr3t"), "{body}");
}

#[tokio::test]
async fn no_spelling_of_an_order_runs_beside_another() {
    let (begun, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    for template in ["order:<id>", "order:<id:u64>"] {
        let handler = {
            let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
            async move |Path(id): Path<u64>| {
                begun.fetch_add(1, Ordering::SeqCst);
                go.notified().await;
                id.to_string()
            }
        };
        let app = Router::new().route("/orders/{id}", on_get(handler).route_layer(layer(template)));
        let first = tokio::spawn({
            let app = app.clone();
            async move { send(&app, get("/orders/1")).await.status() }
        });
        until(|| begun.load(Ordering::SeqCst) == 1).await;
        for spelling in ["1", "01", "+1", "%31", "0001", "%2B1"] {
            let answer = tokio::time::timeout(
                Duration::from_secs(60),
                send(&app, get(&format!("/orders/{spelling}"))),
            );
            let status =
                answer.await.unwrap_or_else(|_| panic!("{template}: {spelling} is at work too")).status();
            assert!(
                status == StatusCode::CONFLICT || status == StatusCode::BAD_REQUEST,
                "{spelling}: {status}"
            );
        }
        go.notify_one();
        assert_eq!(first.await.unwrap(), StatusCode::OK);
        assert_eq!(begun.swap(0, Ordering::SeqCst), 1, "{template}");
    }
}

#[distributed_lock(key = "order:<id>", handle = lock)]
async fn locked_by_attribute(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[tokio::test]
async fn the_layer_and_the_attribute_have_one_key_for_an_order() {
    for id in [0, 1, 42, u64::MAX] {
        let by_attribute = LockManager::in_memory().scope(locked_by_attribute(id)).await.unwrap();
        for template in ["order:<id>", "order:<id:u64>"] {
            assert_eq!(locked(template, &id.to_string()).await.as_ref(), Some(&by_attribute));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// The type that the handler extracts defines which texts are equal.
    #[test]
    fn texts_that_are_one_number_have_one_key_or_none(texts in proptest::collection::vec("[+-]?0{0,3}[0-9]{1,2}", 2..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for template in ["k:<id>", "k:<id:i64>", "k:<id:u64>"] {
                let mut keys = std::collections::HashMap::new();
                for id in &texts {
                    let handler = async |Path(id): Path<i64>, lock: LockHandle| format!("{id} {}", lock.key());
                    let app = Router::new().route("/{id}", on_get(handler).route_layer(layer(template)));
                    let answer = send(&app, get(&format!("/{id}"))).await;
                    if answer.status() == StatusCode::BAD_REQUEST {
                        continue;
                    }
                    let answer = text(answer).await;
                    let (meant, key) = answer.split_once(' ').unwrap();
                    let known = keys.entry(meant.to_owned()).or_insert_with(|| key.to_owned());
                    assert_eq!(known, key, "{template}: {texts:?}");
                }
            }
        });
    }

    #[test]
    fn spellings_of_one_uuid_have_one_key(id in any::<u128>(), upper in any::<bool>(), hyphens in any::<bool>(), around in 0..4) {
        let digits = format!("{id:032x}");
        let hyphened = format!(
            "{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]
        );
        let written = if hyphens { hyphened.clone() } else { digits };
        let written = if upper { written.to_uppercase() } else { written };
        let written = match around {
            0 => format!("%7B{written}%7D"),
            1 => format!("urn:uuid:{written}"),
            _ => written,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let key = runtime.block_on(locked("order:<id:uuid>", &written));
        prop_assert_eq!(key, Some(format!("order:{hyphened}")));
    }
}
