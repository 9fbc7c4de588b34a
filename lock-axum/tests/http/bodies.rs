//! Tests how long the lock of a request is held.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::routing::get as on_get;
use http::{HeaderMap, Method, StatusCode, Version};
use http_body::{Frame, SizeHint};
use lock_axum::{Hold, LockLayer};
use lock_core::LockManager;
use tokio::sync::mpsc;

use crate::support::{OnDrop, Remote, get, is_free, request, send, until};

/// A body whose frames come from a channel. The body never reports `is_end_stream`.
pub(crate) struct Frames {
    frames: mpsc::UnboundedReceiver<&'static str>,
    log: Option<OnDrop>,
    trailers: bool,
    /// The number of bytes still to come, which `size_hint` reports. `None` if the body declares no length.
    left: Option<u64>,
}

impl Frames {
    pub(crate) fn new(frames: mpsc::UnboundedReceiver<&'static str>) -> Self {
        Self { frames, log: None, trailers: false, left: None }
    }
}

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.frames.poll_recv(cx).map(|text| match text {
            Some(text) => {
                if let Some(left) = &mut self.left {
                    *left -= text.len() as u64;
                }
                Some(Ok(Frame::data(Bytes::from(text))))
            }
            None if std::mem::take(&mut self.trailers) => Some(Ok(Frame::trailers(HeaderMap::new()))),
            None => None,
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// Returns a route that answers with `body`, once.
fn app(layer: LockLayer, body: Frames) -> Router {
    let body = Arc::new(Mutex::new(Some(body)));
    let handler = async move || Body::new(body.lock().unwrap().take().unwrap());
    Router::new().route("/orders/{id}", on_get(handler).layer(layer))
}

fn frames() -> (mpsc::UnboundedSender<&'static str>, Frames) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Frames::new(receiver))
}

async fn next(body: &mut Body) -> Option<Frame<Bytes>> {
    std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.map(Result::unwrap)
}

#[tokio::test]
async fn a_streaming_body_holds_the_lock_to_its_end() {
    let locks = LockManager::in_memory();
    let (sender, body) = frames();
    let app = app(LockLayer::new(locks.clone()).key("order:<id>"), body);
    let mut body = send(&app, get("/orders/42")).await.into_body();
    sender.send("a").unwrap();
    assert_eq!(next(&mut body).await.unwrap().into_data().unwrap(), "a");
    assert!(!is_free(&locks, "order:42").await);
    assert!(!body.is_end_stream());
    drop(sender);
    assert!(next(&mut body).await.is_none());
    assert!(is_free(&locks, "order:42").await);
}

#[tokio::test]
async fn the_end_of_a_stream_waits_for_the_release_and_the_body_is_dropped_before() {
    let store = Remote::slow(Duration::from_millis(20));
    let (sender, mut body) = frames();
    body.log = Some(OnDrop(store.log.clone(), "body dropped"));
    let app = app(LockLayer::new(store.manager()).key("order:<id>"), body);
    let body = send(&app, get("/orders/42")).await.into_body();
    sender.send("a").unwrap();
    drop(sender);
    to_bytes(body, usize::MAX).await.unwrap();
    assert_eq!(store.log.all(), ["acquire", "body dropped", "release"]);
}

#[tokio::test]
async fn trailers_wait_for_the_release_too() {
    let store = Remote::slow(Duration::from_millis(20));
    let (sender, mut body) = frames();
    body.trailers = true;
    let app = app(LockLayer::new(store.manager()).key("order:<id>"), body);
    let mut body = send(&app, get("/orders/42")).await.into_body();
    sender.send("a").unwrap();
    drop(sender);
    assert!(next(&mut body).await.unwrap().is_data());
    assert_eq!(store.log.all(), ["acquire"]);
    assert!(next(&mut body).await.unwrap().is_trailers());
    assert_eq!(store.log.all(), ["acquire", "release"]);
    assert!(body.is_end_stream() && next(&mut body).await.is_none());
}

#[tokio::test]
async fn trailers_may_follow_an_empty_frame_behind_the_announced_length() {
    let store = Remote::slow(Duration::from_millis(20));
    let (sender, mut body) = frames();
    (body.trailers, body.left) = (true, Some(3));
    let app = app(LockLayer::new(store.manager()).key("order:<id>").hold(Hold::Body), body);
    let mut request = get("/orders/42");
    *request.version_mut() = Version::HTTP_2;
    let mut body = send(&app, request).await.into_body();
    for text in ["abc", "", ""] {
        sender.send(text).unwrap();
    }
    drop(sender);
    assert_eq!(next(&mut body).await.unwrap().into_data().unwrap(), "abc");
    assert!(next(&mut body).await.unwrap().is_trailers());
    assert!(next(&mut body).await.is_none());
    assert_eq!(store.log.all(), ["acquire", "release"]);
}

#[tokio::test]
async fn the_last_frame_of_a_body_of_known_length_waits_for_the_release() {
    let store = Remote::slow(Duration::from_millis(20));
    let (sender, mut body) = frames();
    body.left = Some(3);
    let app = app(LockLayer::new(store.manager()).key("order:<id>").hold(Hold::Body), body);
    let response = send(&app, get("/orders/42")).await;
    assert_eq!(response.headers()["content-length"], "3");
    let mut body = response.into_body();
    sender.send("a").unwrap();
    sender.send("bc").unwrap();
    drop(sender);
    assert_eq!(next(&mut body).await.unwrap().into_data().unwrap(), "a");
    assert_eq!(store.log.all(), ["acquire"]);
    assert_eq!(next(&mut body).await.unwrap().into_data().unwrap(), "bc");
    assert_eq!(store.log.all(), ["acquire", "release"]);
    assert!(next(&mut body).await.is_none());
}

#[tokio::test]
async fn a_body_that_is_dropped_early_frees_the_key() {
    let store = Remote::default();
    let (sender, body) = frames();
    let app = app(LockLayer::new(store.manager()).key("order:<id>"), body);
    let response = send(&app, get("/orders/42")).await;
    sender.send("a").unwrap();
    drop(response);
    assert!(sender.is_closed());
    until(|| store.log.all() == ["acquire", "release"]).await;
}

#[tokio::test]
async fn the_handler_is_gone_before_the_release_and_the_release_before_the_head() {
    for hold in [Hold::Auto, Hold::Handler] {
        let store = Remote::slow(Duration::from_millis(20));
        let log = store.log.clone();
        let handler = async move || {
            let _local = OnDrop(log.clone(), "local dropped");
            "served"
        };
        let layer = LockLayer::new(store.manager()).key("order:<id>").hold(hold);
        let app = Router::new().route("/orders/{id}", on_get(handler).layer(layer));
        assert_eq!(send(&app, get("/orders/42")).await.status(), StatusCode::OK);
        assert_eq!(store.log.all(), ["acquire", "local dropped", "release"]);
    }
}

#[tokio::test]
async fn hold_handler_does_not_protect_the_stream() {
    let locks = LockManager::in_memory();
    let (sender, body) = frames();
    let app = app(LockLayer::new(locks.clone()).key("order:<id>").hold(Hold::Handler), body);
    let _response = send(&app, get("/orders/42")).await;
    assert!(!sender.is_closed());
    assert!(is_free(&locks, "order:42").await);
}

#[tokio::test]
async fn hold_body_holds_a_body_of_known_length() {
    let locks = LockManager::in_memory();
    let layer = LockLayer::new(locks.clone()).key("order:<id>").hold(Hold::Body);
    let app = Router::new()
        .route("/orders/{id}", on_get(async || "served"))
        .route("/empty/{id}", on_get(async || ()))
        .layer(layer);
    let mut body = send(&app, get("/orders/42")).await.into_body();
    assert!(!is_free(&locks, "order:42").await);
    assert!(next(&mut body).await.unwrap().is_data());
    assert!(is_free(&locks, "order:42").await);
    let _empty = send(&app, get("/empty/42")).await;
    assert!(is_free(&locks, "order:42").await);
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_to_hold_for() {
    let store = Remote::slow(Duration::from_millis(20));
    let layer = LockLayer::new(store.manager()).key("order:<id>").hold(Hold::Body);
    let app = Router::new().route("/orders/{id}", on_get(async || "served").layer(layer));
    send(&app, request(Method::HEAD, "/orders/42")).await;
    assert_eq!(store.log.all(), ["acquire", "release"]);
}

/// A body that acquires the lock of its own request again before each frame.
struct Nested(LockManager);

impl HttpBody for Nested {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let entered = pin!(self.0.lock("order:42").try_acquire()).poll(cx);
        let Poll::Ready(Ok(entered)) = entered else { panic!("the memory store answers at once") };
        Poll::Ready(entered.map(|_guard| Ok(Frame::data(Bytes::from_static(b"entered")))))
    }
}

#[tokio::test]
async fn a_body_that_holds_runs_in_the_scope_of_its_lock() {
    let locks = LockManager::in_memory();
    let layer = LockLayer::new(locks.clone()).key("order:<id>");
    let handler = async move || Body::new(Nested(locks));
    let app = Router::new().route("/orders/{id}", on_get(handler).layer(layer));
    let mut body = send(&app, get("/orders/42")).await.into_body();
    assert_eq!(next(&mut body).await.unwrap().into_data().unwrap(), "entered");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_the_release_holds_the_answer_for_a_second_only() {
    let locks = LockManager::builder(StuckRelease(Remote::default())).build().unwrap();
    let app = Router::new()
        .route("/orders/{id}", on_get(async || "served").layer(LockLayer::new(locks).key("order:<id>")));
    let answered = tokio::time::timeout(Duration::from_millis(1_001), send(&app, get("/orders/42"))).await;
    assert_eq!(answered.expect("answered after a second").status(), StatusCode::OK);
}

/// A store that answers all requests except releases.
#[derive(Debug)]
struct StuckRelease(Remote);

mod stuck {
    use lock_core::backend::{Ask, Attempt, Backend, Capability, Claim, Released, Renew, Renewal};
    use lock_core::{FencingToken, LockError};

    use super::{Duration, StuckRelease};

    impl Backend for StuckRelease {
        fn capability(&self) -> Capability {
            self.0.capability()
        }

        async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt, LockError> {
            self.0.acquire(claim, Ask::Try).await
        }

        async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
            self.0.renew(batch).await
        }

        async fn release(&self, _claim: &Claim, _keep_for: Option<Duration>) -> Result<Released, LockError> {
            std::future::pending().await
        }

        async fn fence(&self, claim: &Claim) -> Result<FencingToken, LockError> {
            self.0.fence(claim).await
        }
    }
}

/// A body with a declared length of three. It sends "abc" for ever, or once and then nothing.
struct Announced {
    endless: bool,
    polls: u32,
}

impl HttpBody for Announced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.polls += 1;
        assert!(self.polls < 10, "polled for more than was announced");
        if self.endless || self.polls == 1 {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"abc")))));
        }
        Poll::Pending
    }
}

/// A body that panics instead of sending its first frame.
struct Broken;

impl HttpBody for Broken {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("a panic that the test wants")
    }
}

#[tokio::test]
async fn a_panic_in_a_body_frees_the_key_before_it_goes_on() {
    let store = Remote::slow(Duration::from_millis(30));
    let layer = LockLayer::new(store.manager()).key("k");
    let app = Router::new().route("/", on_get(async || Body::new(Broken)).route_layer(layer));
    let body = send(&app, get("/")).await.into_body();
    assert!(tokio::spawn(to_bytes(body, 100)).await.unwrap_err().is_panic());
    assert_eq!(store.log.all(), ["acquire", "release"]);
}

/// A server stops polling a body when the declared length is reached, so the release does not wait for more frames
/// either.
#[tokio::test]
async fn what_comes_after_the_announced_length_is_not_waited_for() {
    for endless in [true, false] {
        let locks = LockManager::in_memory();
        let handler =
            move || async move { ([("content-length", "3")], Body::new(Announced { endless, polls: 0 })) };
        let layer = LockLayer::new(locks.clone()).key("k").hold(Hold::Body);
        let app = Router::new().route("/", on_get(handler).route_layer(layer));
        let response = send(&app, get("/")).await;
        assert!(!is_free(&locks, "k").await);
        let body = tokio::time::timeout(Duration::from_secs(60), to_bytes(response.into_body(), 100)).await;
        assert_eq!(&body.expect("it ends").unwrap()[..], b"abc", "endless: {endless}");
        assert!(is_free(&locks, "k").await);
    }
}
