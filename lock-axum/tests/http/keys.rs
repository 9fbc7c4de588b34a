//! Which key a request locks.

use axum::Router;
use axum::routing::{MethodRouter, get as on_get, options, post};
use http::{Method, Request, StatusCode};
use lock_axum::{LockHandle, LockLayer};
use lock_core::LockManager;

use crate::support::{get, request, send, text};

/// Answers with the key. Not by `any`, to which `route_layer` does not apply.
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
        ("/api/orders/1?q=1", &["a", "a"], "The header `x-tenant` is there more than once."),
        ("/api/orders/1?q=1", &["é"], "The header `x-tenant` has characters"),
        ("/api/orders/1?q=1", &["a\tb"], "The header `x-tenant` has characters"),
        ("/api/orders/1", &["a"], "The query parameter `q` is missing."),
        ("/api/orders/1?q=1&q=2", &["a"], "The query parameter `q` is there more than once."),
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
    // Whatever key the 404 might get, it is held.
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
    assert!(text.contains("`<ext.Tenant>`: expected a path parameter"), "{text}");
}

#[tokio::test]
async fn a_404_stays_one_whatever_the_client_left_out() {
    let locks = LockManager::in_memory();
    let layer = LockLayer::new(locks).key("<header.x-tenant>:<id>");
    let app = Router::new().route("/orders/{id}", on_get(async || "")).layer(layer);
    assert_eq!(send(&app, get("/nowhere")).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(send(&app, get("/orders/42")).await.status(), StatusCode::BAD_REQUEST);
}
