//! A service with a console, and a proxy in front of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use http::{Request, Response, StatusCode, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lock_axum::console::{Console, Viewers};
use lock_core::LockManager;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Returns a read-only console of `locks`.
pub(crate) fn read_only(locks: &LockManager) -> Router {
    Console::new(locks.clone(), Viewers::everyone()).into_router()
}

/// Returns a console of `locks` whose viewers may release by force.
pub(crate) fn with_actions(locks: &LockManager) -> Router {
    let operator = |_: &http::request::Parts| Some("ann".to_owned());
    Console::new(locks.clone(), Viewers::everyone()).allow_actions(operator).into_router()
}

/// Returns a console whose event streams never begin while the flag is set, as if the network lost their packets.
pub(crate) fn hanging(console: Router) -> (Router, Arc<AtomicBool>) {
    let hangs = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&hangs);
    let pass = move |request: Request<Body>, next: Next| {
        let is_lost = request.uri().path().ends_with("events") && flag.load(Ordering::SeqCst);
        async move { if is_lost { std::future::pending().await } else { next.run(request).await } }
    };
    (console.layer(from_fn(pass)), hangs)
}

/// Returns a console behind a proxy. The proxy forwards a release, and keeps the answer until the test sends a status.
/// With 200 the answer passes through. Any other status is the proxy's own answer.
pub(crate) fn slow(console: Router) -> (Router, UnboundedSender<StatusCode>) {
    let (sender, receiver) = unbounded_channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let pass = move |request: Request<Body>, next: Next| {
        let receiver = Arc::clone(&receiver);
        async move {
            let is_release = request.uri().path().ends_with("force-release");
            let answer = next.run(request).await;
            if !is_release {
                return answer;
            }
            match receiver.lock().await.recv().await {
                Some(StatusCode::OK) | None => answer,
                Some(status) => (status, "<h1>The proxy says so</h1>").into_response(),
            }
        }
    };
    (console.layer(from_fn(pass)), sender)
}

/// Serves `app` until the runtime of the test ends, and returns `http://127.0.0.1:<port>`.
pub(crate) async fn serve(app: Router) -> String {
    serve_at("127.0.0.1:0", app).await
}

/// Serves `app` at an address. Otherwise like [`serve`].
pub(crate) async fn serve_at(address: &str, app: Router) -> String {
    let listener = TcpListener::bind(address).await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}

/// Returns a service with the console at `path`.
pub(crate) fn nested(path: &str, console: Router) -> Router {
    Router::new().nest_service(path, console)
}

/// Serves the console at `/locks/`, and returns its address.
pub(crate) async fn below_locks(console: Router) -> String {
    format!("{}/locks/", serve(nested("/locks", console)).await)
}

/// Serves a proxy for `upstream`. The proxy replaces the prefix `of` of each path by `by`.
pub(crate) async fn proxy(upstream: &str, of: &'static str, by: &'static str) -> String {
    let upstream: SocketAddr = upstream.trim_start_matches("http://").parse().expect("an address");
    let pass = move |request: Request<Body>| async move {
        let asked = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        match asked.strip_prefix(of) {
            Some(rest) => forward(upstream, format!("{by}{rest}"), request).await,
            None => StatusCode::NOT_FOUND.into_response(),
        }
    };
    serve(Router::new().fallback(pass)).await
}

/// Sends a request on a separate connection. The answer may stay open.
async fn forward(upstream: SocketAddr, path: String, mut request: Request<Body>) -> Response<Body> {
    *request.uri_mut() = path.parse::<Uri>().expect("a path");
    let stream = TcpStream::connect(upstream).await.expect("the service listens");
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    client.send_request(request).await.expect("an answer").map(Body::new)
}
