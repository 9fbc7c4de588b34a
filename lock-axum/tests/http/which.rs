//! Tests which requests are locked, with which keys, and how many keys at once.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, Path};
use axum::routing::{any, get as on_get};
use axum::{Extension, Router};
use http::request::Parts;
use http::{Method, Request, StatusCode, Uri};
use lock_axum::{KeyChoice, LockHandle, LockLayer, OnNoRoute, PathParams};
use lock_core::backend::memory::Memory;
use lock_core::key::{Key, KeyBuilder};
use lock_core::{LockManager, Profile, strategy};
use tokio::sync::Notify;

use crate::logs::capture;
use crate::support::{get, is_free, request, send, text};

/// Answers with the key of the request's lock.
async fn key(lock: Option<LockHandle>) -> String {
    lock.map_or("none".to_owned(), |lock| lock.key().to_owned())
}

fn app(layer: LockLayer) -> Router {
    Router::new().route("/orders/{id}", any(key).layer(layer))
}

#[tokio::test]
async fn only_the_named_methods_are_locked() {
    let layer = || LockLayer::new(LockManager::in_memory()).key("order:<id>");
    let table = [
        (layer(), ["order:7", "order:7", "order:7", "order:7"]),
        (layer().unsafe_methods(), ["none", "none", "order:7", "order:7"]),
        (layer().methods([Method::GET, Method::PUT]), ["order:7", "none", "none", "order:7"]),
    ];
    for (layer, expected) in table {
        let app = app(layer);
        for (method, expected) in
            [Method::GET, Method::OPTIONS, Method::POST, Method::PUT].iter().zip(expected)
        {
            let answer = send(&app, request(method.clone(), "/orders/7")).await;
            assert_eq!(text(answer).await, expected, "{method}");
        }
    }
}

#[tokio::test]
async fn head_is_locked_with_get() {
    let locks = LockManager::in_memory();
    let _busy = locks.lock("order:7").acquire().await.unwrap();
    for named in [Method::GET, Method::HEAD] {
        let app = app(LockLayer::new(locks.clone()).key("order:<id>").methods([named]));
        for asked in [Method::GET, Method::HEAD] {
            assert_eq!(send(&app, request(asked, "/orders/7")).await.status(), StatusCode::CONFLICT);
        }
        assert_eq!(send(&app, request(Method::POST, "/orders/7")).await.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_request_is_skipped_when_the_program_says_so() {
    let layer = LockLayer::new(LockManager::in_memory()).key("order:<header.x-order>");
    let app = app(layer.skip_if(|parts| parts.uri.query() == Some("dry")));
    // A skipped request needs no `x-order` header, although the key contains its value.
    assert_eq!(text(send(&app, get("/orders/7?dry")).await).await, "none");
    assert_eq!(send(&app, get("/orders/7")).await.status(), StatusCode::BAD_REQUEST);
}

fn choose(parts: &Parts) -> KeyChoice {
    match parts.uri.query() {
        Some("skip") => KeyChoice::Skip,
        Some("bad") => KeyChoice::Reject("There is no such place.".into()),
        Some(place) => KeyBuilder::new().literal("place:").value(&place).finish().into(),
        None => KeyBuilder::new().finish().into(),
    }
}

#[tokio::test]
async fn a_function_chooses_the_key() {
    let locks = LockManager::in_memory();
    let app = app(LockLayer::new(locks.clone()).key_fn("place", choose));
    assert_eq!(text(send(&app, get("/orders/7?a:b")).await).await, "place:a%3Ab");
    assert_eq!(text(send(&app, get("/orders/7?skip")).await).await, "none");
    let answer = send(&app, get("/orders/7?bad")).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    let problem = text(answer).await;
    assert!(
        problem.contains("There is no such place.") && problem.contains(r#""lock":"place""#),
        "{problem}"
    );
    assert_eq!(send(&app, get("/orders/7")).await.status(), StatusCode::BAD_REQUEST, "an empty key");
    let _busy = locks.lock("place:x").acquire().await.unwrap();
    assert_eq!(send(&app, get("/orders/7?x")).await.status(), StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_key_of_its_own_type_will_do() {
    let fixed = |_: &Parts| Key::new("one").unwrap();
    let app = app(LockLayer::new(LockManager::in_memory()).key_fn("one", fixed));
    assert_eq!(text(send(&app, get("/orders/7")).await).await, "one");
}

#[tokio::test]
async fn the_path_is_what_the_client_wrote_also_in_a_nested_router() {
    let layer = LockLayer::new(LockManager::in_memory()).key("<uri.path>");
    let inner = Router::new().route("/orders/{id}", on_get(key).layer(layer));
    let app = Router::new().nest("/api", inner);
    assert_eq!(text(send(&app, get("/api/orders/7?q=1")).await).await, "%2Fapi%2Forders%2F7");
}

#[tokio::test]
async fn a_long_header_is_no_part_of_a_key() {
    let app = app(LockLayer::new(LockManager::in_memory()).key("<header.x>"));
    for (length, status) in [(255, StatusCode::OK), (256, StatusCode::BAD_REQUEST)] {
        let request = Request::get("/orders/7").header("x", "a".repeat(length)).body(Body::empty()).unwrap();
        assert_eq!(send(&app, request).await.status(), status, "{length}");
    }
}

/// Returns a handler that reports its start, and waits until it may end.
fn gated(layer: LockLayer) -> (Router, Arc<Notify>, Arc<Notify>) {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
        async move || {
            begun.notify_one();
            go.notified().await;
        }
    };
    (Router::new().route("/orders/{id}", on_get(handler).layer(layer)), begun, go)
}

#[tokio::test]
async fn keys_in_flight_are_bounded_and_given_back_on_every_way_out() {
    let locks = LockManager::in_memory();
    let (app, begun, go) = gated(LockLayer::new(locks.clone()).key("order:<id>").max_keys(1));
    let first = tokio::spawn({
        let app = app.clone();
        async move { send(&app, get("/orders/1")).await.status() }
    });
    begun.notified().await;
    let refused = send(&app, get("/orders/2")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(text(refused).await.contains("lock-overloaded"));
    assert_eq!(
        send(&app, get("/orders/1")).await.status(),
        StatusCode::CONFLICT,
        "the same key is no further one"
    );
    go.notify_one();
    assert_eq!(first.await.unwrap(), StatusCode::OK);

    // Neither a request that is dropped nor a request that is refused for another reason uses up the limit.
    let dropped = tokio::spawn({
        let app = app.clone();
        async move { send(&app, get("/orders/3")).await.status() }
    });
    begun.notified().await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    let busy = locks.lock("order:4").acquire().await.unwrap();
    assert_eq!(send(&app, get("/orders/4")).await.status(), StatusCode::CONFLICT);
    busy.release().await.unwrap();
    go.notify_one();
    assert_eq!(send(&app, get("/orders/5")).await.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_profile_says_what_the_layer_does_not() {
    let patient = Profile::new().strategy(strategy::retry()).wait(Duration::from_secs(2));
    let builder = LockManager::builder(Memory::new()).profile("patient", patient);
    let locks = builder.profile("short", Profile::new().wait(Duration::from_millis(10))).build().unwrap();
    let waits = async |layer: LockLayer| {
        let _busy = locks.lock("order:7").acquire().await.unwrap();
        let begun = tokio::time::Instant::now();
        assert_eq!(send(&app(layer), get("/orders/7")).await.status(), StatusCode::CONFLICT);
        begun.elapsed()
    };
    let layer = || LockLayer::new(locks.clone()).key("order:<id>");
    assert_eq!(waits(layer()).await, Duration::ZERO);
    assert!(waits(layer().profile("patient")).await >= Duration::from_secs(2));
    let short = waits(layer().profile("short")).await;
    assert!((Duration::from_millis(10)..Duration::from_secs(1)).contains(&short), "{short:?}");
    assert_eq!(waits(layer().profile("patient").strategy(strategy::fail_fast())).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_kept_for_a_while_after_a_quick_answer() {
    let locks = LockManager::in_memory();
    let app = app(LockLayer::new(locks.clone()).key("mail:<id>").min_hold(Duration::from_secs(7)));
    let begun = tokio::time::Instant::now();
    assert_eq!(send(&app, get("/orders/7")).await.status(), StatusCode::OK);
    assert_eq!(begun.elapsed(), Duration::ZERO, "the answer does not wait");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let refused = send(&app, get("/orders/7")).await;
    assert_eq!(refused.status(), StatusCode::CONFLICT);
    // `Retry-After` is the rest of the `min_hold`, 5 s, plus a random part of up to a quarter in whole seconds.
    let after = refused.headers()["retry-after"].to_str().unwrap();
    assert!(["5", "6"].contains(&after), "{after}");
    let text = text(refused).await;
    assert!(text.contains("Another request has locked this resource."), "nobody is at work: {text}");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(is_free(&locks, "mail:7").await);
}

#[derive(Clone)]
struct User {
    tenant: &'static str,
}

/// Formats the value as the handler receives it.
impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.tenant)
    }
}

fn of(tenant: &'static str, uri: &str) -> Request<Body> {
    Request::get(uri).extension(User { tenant }).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn an_extractor_gives_the_key_that_the_handler_means() {
    let new = || LockLayer::new(LockManager::in_memory());
    let orders = app(new().key_of("order:<id>", |Path(id): Path<u64>| id));
    for (uri, expected) in [("/orders/7", "order:7"), ("/orders/007", "order:7"), ("/orders/+7", "order:7")] {
        assert_eq!(text(send(&orders, get(uri)).await).await, expected, "{uri}");
    }
    let refused = send(&orders, get("/orders/seven")).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "the answer of the extractor");
    assert!(text(refused).await.contains("Invalid URL"));
    assert_eq!(send(&orders, get("/elsewhere")).await.status(), StatusCode::NOT_FOUND);

    let several = new()
        .key_of("o:<tenant>:<id>", |(Extension(user), Path(id)): (Extension<User>, Path<u64>)| {
            (user.tenant, id)
        });
    let app = app(several);
    assert_eq!(text(send(&app, of("a:b", "/orders/07")).await).await, "o:a%3Ab:7");
    assert_eq!(send(&app, of("", "/orders/7")).await.status(), StatusCode::BAD_REQUEST, "an empty value");
    let lacking = send(&app, get("/orders/7")).await;
    assert_eq!(lacking.status(), StatusCode::INTERNAL_SERVER_ERROR, "the answer of `Extension`");
}

#[tokio::test]
async fn the_404_of_a_router_is_no_answer_of_an_extractor() {
    let layer = LockLayer::new(LockManager::in_memory()).key_of("order:<id>", |Path(id): Path<u64>| id);
    let layer = layer.on_no_route(OnNoRoute::Serve);
    let app = Router::new().route("/orders/{id}", on_get(key)).layer(layer);
    assert_eq!(send(&app, get("/elsewhere/7")).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(text(send(&app, get("/orders/07")).await).await, "order:7");
}

/// A tenant from a header. A request without this header is not authorized.
struct Tenant(String);

impl<S: Sync> FromRequestParts<S> for Tenant {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let tenant = parts.headers.get("x-tenant").and_then(|value| value.to_str().ok());
        tenant.map(|tenant| Self(tenant.to_owned())).ok_or((StatusCode::UNAUTHORIZED, "who are you?"))
    }
}

#[tokio::test]
async fn a_fallback_does_no_work_unlocked_because_a_header_is_missing() {
    for on_no_route in [OnNoRoute::default(), OnNoRoute::Serve] {
        let new = || LockLayer::new(LockManager::in_memory()).on_no_route(on_no_route);
        let layers = [
            new().key_of("tenant:<t>", |Tenant(tenant): Tenant| tenant),
            new().key_of("tenant:<t>:<p>", |(Tenant(tenant), uri): (Tenant, Uri)| {
                (tenant, uri.path().len().to_string())
            }),
        ];
        for layer in layers {
            let app = Router::new().fallback(key).layer(layer);
            let refused = send(&app, get("/work")).await;
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "the answer of the extractor");
            assert_eq!(text(refused).await, "who are you?");
            let request = Request::get("/work").header("x-tenant", "acme").body(Body::empty()).unwrap();
            assert!(text(send(&app, request).await).await.starts_with("tenant:acme"));
        }
    }
}

#[tokio::test]
async fn whatever_extracts_from_the_route_leaves_a_404_alone() {
    let new = || LockLayer::new(LockManager::in_memory());
    let layers = [
        new().key_of("o:<id>", |Path(id): Path<u64>| id),
        new().key_of("o:<id>:<x>", |Path((id, x)): Path<(u64, String)>| (id, x)),
        new().key_of("o:<id>:<l>", |(Path(id), uri): (Path<u64>, Uri)| (id, uri.path().len())),
        new().key_of("o:<route>", |route: MatchedPath| route.as_str().to_owned()),
    ];
    for (at, layer) in layers.into_iter().enumerate() {
        let app = Router::new().route("/orders/{id}", on_get(key)).layer(layer);
        assert_eq!(send(&app, get("/elsewhere/7")).await.status(), StatusCode::NOT_FOUND, "{at}");
    }
}

#[test]
fn an_extractor_and_its_template_have_as_many_values() {
    let layer = || LockLayer::new(LockManager::in_memory()).key_of("order", |Path(id): Path<u64>| id);
    let panic = std::panic::catch_unwind(layer).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(
        text.contains(
            "the number of placeholders in the template `order` is 0, but the function returns 1 value"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn an_extension_is_a_part_of_the_key_and_its_absence_is_no_shared_lock() {
    let layer = || LockLayer::new(LockManager::in_memory()).extension::<User>("User");
    let app = app(layer().key("order:<ext.User:lower>:<id:u64>"));
    assert_eq!(text(send(&app, of("ACME", "/orders/07")).await).await, "order:acme:7");
    assert_eq!(send(&app, get("/orders/7")).await.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(send(&app, of("", "/orders/7")).await.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let error = layer().try_key("<ext.Tenant>").unwrap_err().to_string();
    assert!(error.contains("no extension `Tenant` is registered (registered: `User`)"), "{error}");
}

#[tokio::test]
async fn a_function_may_see_the_path_parameters() {
    let choose = |parts: &Parts, params: PathParams<'_>| -> Result<Key, KeyChoice> {
        if parts.uri.query() == Some("skip") {
            return Err(KeyChoice::Skip);
        }
        let id: u64 = params.parse("id")?;
        assert_eq!(params.get("nothing"), None);
        Ok(KeyBuilder::new().literal("order:").value(&id).finish().unwrap())
    };
    let layer = LockLayer::new(LockManager::in_memory()).key_with("order", choose);
    let layer = layer.on_no_route(OnNoRoute::Serve);
    let app = Router::new().route("/orders/{id}", on_get(key)).layer(layer);
    assert_eq!(text(send(&app, get("/orders/007")).await).await, "order:7");
    assert_eq!(text(send(&app, get("/orders/7?skip")).await).await, "none");
    let refused = send(&app, get("/orders/seven")).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert!(text(refused).await.contains("`id` is missing or invalid"));
    assert_eq!(send(&app, get("/elsewhere")).await.status(), StatusCode::NOT_FOUND);
}

/// Returns a service with its own routes, mounted under `/api`, next to a plain route.
fn nested(layer: LockLayer) -> Router {
    let service = Router::<()>::new().route("/orders/{id}", on_get(async || "served"));
    Router::new().route("/orders/{id}", on_get(async || "served")).nest_service("/api", service).layer(layer)
}

#[tokio::test]
async fn nothing_is_served_unlocked_behind_a_nested_service() {
    for (refuse, elsewhere) in
        [(None, 404), (Some(OnNoRoute::RefuseNested), 404), (Some(OnNoRoute::Refuse), 500)]
    {
        let layer = LockLayer::new(LockManager::in_memory()).key("order:<id>");
        let app = nested(match refuse {
            None => layer,
            Some(refuse) => layer.on_no_route(refuse),
        });
        let (log, _capturing) = capture();
        for path in ["/api/orders/42", "/api/orders/42", "/api/nowhere"] {
            assert_eq!(send(&app, get(path)).await.status(), 500, "{refuse:?} {path}");
        }
        assert_eq!(send(&app, get("/orders/42")).await.status(), StatusCode::OK);
        assert_eq!(send(&app, get("/elsewhere")).await.status(), elsewhere, "{refuse:?}");
        let lines = log.all();
        assert!(lines.len() == 1 && lines[0].contains("inside `nest_service`"), "{lines:?}");
    }
}

#[tokio::test]
async fn a_layer_inside_a_nested_service_locks_its_routes_and_keeps_its_404() {
    let locks = LockManager::in_memory();
    let layer = || LockLayer::new(locks.clone()).key("order:<id>");
    let deeper = Router::<()>::new().route("/items/{id}", on_get(async || "served"));
    let inner = Router::<()>::new()
        .route("/orders/{id}", on_get(async || "served"))
        .nest_service("/deeper", deeper)
        .layer(layer());
    let app = Router::new().nest_service("/api", inner.clone()).nest("/plain", inner);
    let _busy = locks.lock("order:42").acquire().await.unwrap();
    for prefix in ["/api", "/plain"] {
        for (path, status) in
            [("/orders/42", 409), ("/orders/7", 200), ("/nowhere", 404), ("/deeper/items/7", 500)]
        {
            let answer = send(&app, get(&format!("{prefix}{path}"))).await;
            assert_eq!(answer.status(), status, "{prefix}{path}");
        }
    }
}
