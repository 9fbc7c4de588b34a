//! Tests the layer as a tower service: bounds, readiness, nesting, dropping.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::response::IntoResponse;
use axum::routing::get as on_get;
use http::{Request, Response, StatusCode};
use lock_axum::{Hold, Lock, LockBody, LockHandle, LockLayer, ResponseFuture};
use lock_core::{LockError, LockManager};
use tokio::sync::Notify;
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{Log, OnDrop, Remote, get, is_free, send, text, until};

#[test]
fn bounds() {
    fn send<T: Send + 'static>() {}
    fn all<T: Clone + Send + Sync + 'static>() {}
    all::<LockLayer>();
    all::<LockHandle>();
    all::<Lock<axum::routing::Route>>();
    send::<LockBody<Body>>();
    send::<ResponseFuture<Body, Infallible>>();
}

#[tokio::test]
async fn any_tower_service_can_be_locked() {
    let locks = LockManager::in_memory();
    let layer = LockLayer::new(locks.clone()).key("job:<header.job>");
    let service = layer.layer(service_fn(|request: Request<String>| async move {
        let key = request.extensions().get::<LockHandle>().unwrap().key().to_owned();
        Ok::<_, std::io::Error>(Response::new(Body::from(format!("{key} {}", request.into_body()))))
    }));
    let request = || Request::post("/").header("job", "7").body("now".to_owned()).unwrap();
    let response = service.clone().oneshot(request()).await.unwrap();
    assert_eq!(text(response.map(Body::new)).await, "job:7 now");
    let _holder = locks.lock("job:7").acquire().await.unwrap();
    assert_eq!(service.oneshot(request()).await.unwrap().status(), StatusCode::CONFLICT);
}

#[tokio::test]
async fn an_error_of_the_service_stays_one_and_frees_the_key() {
    let store = Remote::slow(Duration::from_millis(5));
    let layer = LockLayer::new(store.manager()).key("job");
    let service = layer.layer(service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, _>(std::io::Error::other("broken"))
    }));
    assert_eq!(service.oneshot(get("/")).await.unwrap_err().to_string(), "broken");
    assert_eq!(store.log.all(), ["acquire", "release"]);
}

#[tokio::test]
async fn the_service_is_dropped_before_the_lock() {
    let store = Remote::slow(Duration::from_millis(5));
    let local = Arc::new(OnDrop(store.log.clone(), "service dropped"));
    let service = LockLayer::new(store.manager()).key("job").layer(service_fn(move |_: Request<Body>| {
        let _shared = &local;
        std::future::ready(Ok::<_, Infallible>(Response::new(Body::empty())))
    }));
    service.oneshot(get("/")).await.unwrap();
    assert_eq!(store.log.all(), ["acquire", "service dropped", "release"]);
}

#[tokio::test]
async fn path_parameters_outside_of_a_router_are_the_programs_fault() {
    let service = LockLayer::new(LockManager::in_memory())
        .key("order:<id>")
        .layer(Router::<()>::new().route("/orders/{id}", on_get(async || "served")));
    let response = service.oneshot(get("/orders/42")).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn readiness_is_not_stolen_from_clones() {
    // `ConcurrencyLimit` panics if `call` is called on a clone that is not ready.
    let inner = ConcurrencyLimitLayer::new(1).layer(service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(Body::from("served")))
    }));
    let mut service = LockLayer::new(LockManager::in_memory()).key("job").layer(inner);
    for _ in 0..3 {
        let answer = service.ready().await.unwrap().call(get("/"));
        assert_eq!(answer.await.unwrap().status(), StatusCode::OK);
    }
}

/// A service that is ready only after it was polled.
#[derive(Clone)]
struct NeedsPolling(bool);

impl Service<Request<Body>> for NeedsPolling {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, _request: Request<Body>) -> Self::Future {
        std::future::ready(Ok(Response::new(Body::empty())))
    }
}

#[test]
fn readiness_is_that_of_the_inner_service() {
    let mut service = LockLayer::new(LockManager::in_memory()).key("job").layer(NeedsPolling(false));
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(service.poll_ready(&mut cx).is_pending());
    assert!(service.poll_ready(&mut cx).is_ready());
}

#[tokio::test]
async fn a_nested_call_on_the_same_key_enters_again() {
    let locks = LockManager::in_memory();
    let handler = {
        let locks = locks.clone();
        async move || {
            let nested =
                locks.lock("order:42").strategy(lock_core::strategy::fail_fast()).run(async { "entered" });
            nested.await.unwrap()
        }
    };
    for hold in [Hold::Auto, Hold::Body] {
        // Both layers have the same key, so the inner layer enters the lock of the outer layer.
        let layer = LockLayer::new(locks.clone()).key("order:<id>").hold(hold);
        let routes = on_get(handler.clone()).route_layer(layer.clone()).layer(layer);
        let app = Router::new().route("/orders/{id}", routes);
        assert_eq!(text(send(&app, get("/orders/42")).await).await, "entered");
        assert!(is_free(&locks, "order:42").await);
    }
}

#[lock_core::distributed_lock(key = "order:<id>", strategy = "fail_fast")]
async fn ship(id: u64) -> Result<u64, lock_core::LockError> {
    Ok(id)
}

#[tokio::test]
async fn an_annotated_function_on_the_same_key_enters_again() {
    let locks = LockManager::in_memory();
    let handler = async |Path(id): Path<u64>| {
        ship(id).await.map_or_else(|error| error.to_string(), |id| id.to_string())
    };
    let layer = LockLayer::new(locks.clone()).key("order:<id>");
    let app = Router::new().route("/orders/{id}", on_get(handler).layer(layer));
    assert_eq!(text(locks.scope(send(&app, get("/orders/42"))).await).await, "42");
}

/// The answer of a handler that acquires its lock itself.
struct Refused(LockError);

impl From<LockError> for Refused {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response<Body> {
        (StatusCode::CONFLICT, self.0.to_string()).into_response()
    }
}

#[lock_core::distributed_lock(key = "order:<id.0>", strategy = "fail_fast")]
async fn pay(id: Path<u64>) -> Result<String, Refused> {
    Ok(format!("paid {}", *id))
}

#[lock_core::distributed_lock(key = "order:<path.0.1>", strategy = "fail_fast")]
async fn pay_for(path: Path<(String, u64)>) -> Result<String, Refused> {
    let Path((tenant, id)) = path;
    Ok(format!("{tenant} paid {id}"))
}

#[tokio::test]
async fn an_annotated_handler_names_what_is_inside_of_its_extractor() {
    let locks = LockManager::in_memory();
    let app = Router::new()
        .route("/orders/{id}", on_get(pay))
        .route("/{tenant}/{id}", on_get(pay_for))
        .with_state(());
    let held = locks.lock("order:42").acquire().await.unwrap();
    for (path, status) in [
        ("/orders/42", StatusCode::CONFLICT),
        ("/orders/43", StatusCode::OK),
        ("/acme/42", StatusCode::CONFLICT),
        ("/acme/43", StatusCode::OK),
    ] {
        assert_eq!(locks.scope(send(&app, get(path))).await.status(), status, "{path}");
    }
    held.release().await.unwrap();
    assert_eq!(text(locks.scope(send(&app, get("/orders/42"))).await).await, "paid 42");
    assert_eq!(text(locks.scope(send(&app, get("/acme/42"))).await).await, "acme paid 42");
}

#[tokio::test]
async fn dropping_the_answer_drops_the_handler_first_and_then_the_lock() {
    let (store, begun) = (Remote::default(), Arc::new(Notify::new()));
    let handler = {
        let (log, begun) = (store.log.clone(), Arc::clone(&begun));
        async move || {
            let _local = OnDrop(log.clone(), "local dropped");
            begun.notify_one();
            std::future::pending::<()>().await;
        }
    };
    let layer = LockLayer::new(store.manager()).key("order:<id>");
    let app = Router::new().route("/orders/{id}", on_get(handler).layer(layer));
    let running = tokio::spawn(async move { send(&app, get("/orders/42")).await });
    begun.notified().await;
    running.abort();
    until(|| store.log.all().len() == 3).await;
    assert_eq!(store.log.all(), ["acquire", "local dropped", "release"]);
}

#[tokio::test]
async fn dropping_the_answer_while_its_lock_is_acquired_leaves_nothing() {
    let store = Remote::slow(Duration::from_millis(30));
    let locks = store.manager();
    let log = Log::default();
    let handler = {
        let log = log.clone();
        async move || log.add("ran")
    };
    let app = Router::new()
        .route("/orders/{id}", on_get(handler).layer(LockLayer::new(locks.clone()).key("order:<id>")));
    let answer = tokio::time::timeout(Duration::from_millis(5), send(&app, get("/orders/42"))).await;
    assert!(answer.is_err(), "dropped while the store was asked");
    assert_eq!(locks.held(), 0);
    assert!(is_free(&locks, "order:42").await);
    assert!(log.all().is_empty());
    store.down.store(true, Ordering::Relaxed);
}

#[tokio::test]
async fn a_panic_in_the_handler_frees_the_key_before_it_goes_on() {
    let store = Remote::slow(Duration::from_millis(30));
    let layer = LockLayer::new(store.manager()).key("job");
    let service = layer.layer(service_fn(|request: Request<Body>| async move {
        assert!(request.uri().path().is_empty(), "a panic that the test wants");
        Ok::<_, Infallible>(Response::new(Body::empty()))
    }));
    assert!(tokio::spawn(service.oneshot(get("/"))).await.unwrap_err().is_panic());
    assert_eq!(store.log.all(), ["acquire", "release"]);
}
