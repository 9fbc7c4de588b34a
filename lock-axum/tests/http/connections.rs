//! Tests the layer over real connections: keep-alive, and clients that disconnect.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use axum::serve::ListenerExt;
use http::header::CONTENT_LENGTH;
use lock_axum::{Hold, LockLayer};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

use crate::bodies::Frames;
use crate::support::{OnDrop, Remote, until};

/// Serves `app` on a free port until the runtime of the test ends.
async fn serve(app: Router) -> BufReader<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Without this setting, a chunked answer waits for the acknowledgement of its first part.
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    BufReader::new(stream)
}

/// Sends one request and reads its whole answer. Returns the status.
async fn ask(client: &mut BufReader<TcpStream>, path: &str) -> u16 {
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes()).await.unwrap();
    let mut line = String::new();
    client.read_line(&mut line).await.unwrap();
    let status = line.split(' ').nth(1).unwrap().parse().unwrap();
    let mut length = None;
    loop {
        line.clear();
        client.read_line(&mut line).await.unwrap();
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            None => break,
            Some(("content-length", text)) => length = Some(text.parse().unwrap()),
            Some(_) => {}
        }
    }
    match length {
        Some(length) => read(client, length).await,
        None => read_chunks(client).await,
    }
    status
}

async fn read(client: &mut BufReader<TcpStream>, length: usize) {
    client.read_exact(&mut vec![0; length]).await.unwrap();
}

async fn read_chunks(client: &mut BufReader<TcpStream>) {
    loop {
        let mut size = String::new();
        client.read_line(&mut size).await.unwrap();
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
        read(client, size + 2).await;
        if size == 0 {
            return;
        }
    }
}

fn stream_of(text: &'static str) -> Body {
    let (sender, receiver) = mpsc::unbounded_channel();
    sender.send(text).unwrap();
    Body::new(Frames::new(receiver))
}

/// Returns how many of 200 sequential requests on one connection and one key were refused. The store takes two
/// milliseconds for a release. If a release is not awaited, it arrives far too late for the next request.
async fn refused(hold: Hold, path: &str) -> usize {
    let store = Remote::slow(Duration::from_millis(2));
    let layer = LockLayer::new(store.manager()).key("<id>").hold(hold);
    let app = Router::new()
        .route("/buffered/{id}", on_get(async || "served"))
        .route("/stream/{id}", on_get(async || stream_of("served")))
        .route("/announced/{id}", on_get(async || ([(CONTENT_LENGTH, "6")], stream_of("served"))))
        .route("/empty/{id}", on_get(async || ()))
        .layer(layer);
    let mut client = serve(app).await;
    let mut refused = 0;
    for _ in 0..200 {
        match ask(&mut client, path).await {
            200 => {}
            409 => refused += 1,
            other => panic!("unexpected status {other}"),
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_never_meets_its_own_lock() {
    let mut clients = Vec::new();
    for hold in [Hold::Auto, Hold::Handler, Hold::Body] {
        for path in ["/buffered/1", "/stream/1", "/announced/1", "/empty/1"] {
            clients.push((hold, path, tokio::spawn(refused(hold, path))));
        }
    }
    for (hold, path, client) in clients {
        assert_eq!(client.await.unwrap(), 0, "{hold:?} {path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_frees_the_key() {
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
    let mut client = serve(Router::new().route("/orders/{id}", on_get(handler).layer(layer))).await;
    client.write_all(b"GET /orders/42 HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    begun.notified().await;
    drop(client);
    until(|| store.log.all().len() == 3).await;
    assert_eq!(store.log.all(), ["acquire", "local dropped", "release"]);
}
