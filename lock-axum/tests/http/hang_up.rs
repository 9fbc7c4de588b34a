//! Tests clients that disconnect from real connections, and runtimes that end.

use std::sync::{Arc, mpsc as threads};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use http::StatusCode;
use lock_axum::{LockLayer, OnDisconnect};
use lock_core::{LockEvent, LockManager};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

use crate::bodies::Frames;
use crate::support::{Log, OnDrop, get, is_free, send, text};

/// The time for which a test watches a key that must stay locked.
const SOON: Duration = Duration::from_millis(50);
/// The deadline for events that must happen.
const LATE: Duration = Duration::from_secs(10);
/// A lease that is longer than any test.
const TTL: Duration = Duration::from_secs(600);

/// Connects a client that has sent a request to `app` and waits for the answer.
async fn asking(app: Router) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET /orders/42 HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    client
}

/// Returns whether a waiter gets the key within `limit`.
async fn is_free_within(limit: Duration, locks: &LockManager) -> bool {
    let next = locks.lock("order:42").wait(limit).acquire().await;
    match next {
        Ok(guard) => guard.release().await.is_ok(),
        Err(error) => {
            assert!(error.is_timed_out(), "{error}");
            false
        }
    }
}

/// A handler that is serving a client.
struct AtWork {
    locks: LockManager,
    log: Log,
    go: Arc<Notify>,
    client: TcpStream,
}

async fn at_work(on_disconnect: OnDisconnect) -> AtWork {
    let (locks, log) = (LockManager::in_memory(), Log::default());
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (log, begun, go) = (log.clone(), Arc::clone(&begun), Arc::clone(&go));
        async move || {
            let _local = OnDrop(log.clone(), "dropped");
            begun.notify_one();
            go.notified().await;
            log.add("finished");
            "done"
        }
    };
    let layer = LockLayer::new(locks.clone()).key("order:<id>").ttl(TTL).on_disconnect(on_disconnect);
    let client = asking(Router::new().route("/orders/{id}", on_get(handler).layer(layer))).await;
    begun.notified().await;
    assert!(!is_free(&locks, "order:42").await);
    AtWork { locks, log, go, client }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_of_a_client_that_hangs_up_is_given_back_and_not_left_to_its_lease() {
    for round in 0..5 {
        let AtWork { locks, log, client, .. } = at_work(OnDisconnect::Cancel).await;
        let mut events = locks.events();
        // The lease outlasts the test, so only the release can free the key.
        let next = tokio::spawn(locks.lock("order:42").wait(LATE).acquire());
        drop(client);
        drop(next.await.unwrap().expect("it is free"));
        assert_eq!(log.all(), ["dropped"], "{round}");
        let freed = events.next().await;
        assert!(
            matches!(&freed, Some(LockEvent::Released { held, .. }) if *held < TTL / 2),
            "{round}: {freed:?}"
        );
        assert!(matches!(events.next().await, Some(LockEvent::Granted { .. })), "{round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_finishes_holds_its_key_to_the_end() {
    let AtWork { locks, log, go, client } = at_work(OnDisconnect::Finish).await;
    drop(client);
    assert!(!is_free_within(SOON, &locks).await);
    assert!(log.all().is_empty());
    go.notify_one();
    assert!(is_free_within(LATE, &locks).await);
    assert_eq!(log.all(), ["finished", "dropped"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stays_is_answered_by_a_handler_that_would_finish() {
    let AtWork { locks, go, mut client, .. } = at_work(OnDisconnect::Finish).await;
    go.notify_one();
    let mut head = [0; 12];
    client.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    assert!(is_free(&locks, "order:42").await, "given back before the answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_without_its_client_gives_the_key_back() {
    for on_disconnect in [OnDisconnect::Cancel, OnDisconnect::Finish] {
        let locks = LockManager::in_memory();
        let (frames, body) = mpsc::unbounded_channel();
        let body = Arc::new(std::sync::Mutex::new(Some(Frames::new(body))));
        let handler = async move || Body::new(body.lock().unwrap().take().unwrap());
        let layer = LockLayer::new(locks.clone()).key("order:<id>").on_disconnect(on_disconnect);
        let app = Router::new().route("/orders/{id}", on_get(handler).layer(layer));
        frames.send("first").unwrap();
        let mut client = asking(app).await;
        client.read_exact(&mut [0; 12]).await.unwrap();
        assert!(!is_free(&locks, "order:42").await);
        drop(client);
        assert!(is_free_within(LATE, &locks).await, "{on_disconnect:?}");
    }
}

fn never_ends(locks: &LockManager, begun: impl Fn() + Clone + Send + Sync + 'static) -> Router {
    let handler = async move || {
        begun();
        std::future::pending::<()>().await;
    };
    let layer = LockLayer::new(locks.clone()).key("order:<id>").on_disconnect(OnDisconnect::Finish);
    let layer = layer.respond_with(|_, request| (StatusCode::IM_A_TEAPOT, request.uri.to_string()));
    Router::new().route("/orders/{id}", on_get(handler).layer(layer))
}

#[test]
fn a_runtime_ends_with_the_handlers_that_would_finish_and_their_keys_are_free() {
    let locks = LockManager::in_memory();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let begun = Arc::new(Notify::new());
        let app = never_ends(&locks, {
            let begun = Arc::clone(&begun);
            move || begun.notify_one()
        });
        let client = tokio::spawn(async move { send(&app, get("/orders/42")).await });
        begun.notified().await;
        client.abort();
    });
    runtime.shutdown_timeout(LATE);
    assert_eq!(locks.held(), 0);
}

#[test]
fn a_caller_in_another_runtime_is_told_that_that_of_the_handler_has_ended() {
    let (begun, is_begun) = threads::channel();
    let (done, is_done) = threads::channel();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || {
        let app = never_ends(&LockManager::in_memory(), move || begun.send(()).unwrap());
        let answer = handle.block_on(send(&app, get("/orders/42")));
        done.send((answer.status(), handle.block_on(text(answer)))).unwrap();
    });
    is_begun.recv_timeout(LATE).unwrap();
    runtime.shutdown_background();
    let answer = is_done.recv_timeout(LATE).expect("it does not hang");
    assert_eq!(
        answer,
        (StatusCode::IM_A_TEAPOT, "/orders/42".to_owned()),
        "as the layer makes all its answers"
    );
}
