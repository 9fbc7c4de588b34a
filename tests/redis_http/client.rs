//! A server on a free port, and a client with one connection to it.

use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::serve::ListenerExt;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};

/// The version of HTTP. With both versions, the client sends the next request on the same connection once an answer is
/// complete.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Version {
    Http1,
    Http2,
}

pub(crate) const VERSIONS: [Version; 2] = [Version::Http1, Version::Http2];

/// Serves `app` until the runtime of the test ends.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    // Without this setting, a chunked answer waits for the acknowledgement of its first part.
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("a TCP socket"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// One connection of a client.
pub(crate) enum Client {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, version: Version) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        let stream = TokioIo::new(stream);
        match version {
            Version::Http1 => {
                let (client, connection) = http1::handshake(stream).await.expect("HTTP/1.1");
                tokio::spawn(connection);
                Self::Http1(client)
            }
            Version::Http2 => {
                let (client, connection) =
                    http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
                tokio::spawn(connection);
                Self::Http2(client)
            }
        }
    }

    /// Sends a request, and reads the whole answer.
    pub(crate) async fn ask(&mut self, path: &str) -> StatusCode {
        let request = Request::post(path).header("host", "test").body(Empty::new()).expect("a request");
        let answer = match self {
            Self::Http1(client) => {
                client.ready().await.expect("an open connection");
                client.send_request(request).await
            }
            Self::Http2(client) => client.send_request(request).await,
        };
        let answer = answer.expect("an answer");
        let status = answer.status();
        answer.into_body().collect().await.expect("a whole body");
        status
    }
}

/// Returns a body whose length is unknown in advance.
pub(crate) fn stream_of(parts: [&'static str; 3]) -> Body {
    let (mut sender, body) = http_body_util::channel::Channel::<Bytes>::new(1);
    tokio::spawn(async move {
        for part in parts {
            if sender.send_data(Bytes::from_static(part.as_bytes())).await.is_err() {
                return;
            }
        }
    });
    Body::new(body)
}
