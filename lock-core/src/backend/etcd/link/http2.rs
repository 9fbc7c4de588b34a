//! One HTTP/2 connection, as a service that tonic's client can call.
//!
//! tonic's own channel is not used, because that channel redials on its own while its callers wait. The supervisor of
//! [`remote`](crate::backend::remote) redials for every store, with a deadline for each caller.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tonic::body::Body;

/// The number of bytes of one answer that may be in flight.
const STREAM_WINDOW: u32 = 2 << 20;
/// The number of bytes of all answers together that may be in flight.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// The sending side of a connection. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Http2 {
    sender: SendRequest<Body>,
}

impl Http2 {
    /// Performs the HTTP/2 handshake. Adds the task that drives the connection to `drivers`: dropping them ends the
    /// task and the connection, so that an abandoned dial leaves no socket open.
    pub(super) async fn begin<S>(stream: S, drivers: &mut JoinSet<()>) -> Result<Self, hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        // These windows have room for a list of many locks. Adaptive windows are not used, because hyper needs pings to
        // measure them. By default, a gRPC server closes the connection of a client that pings more often than every
        // five minutes. etcd's limit is five seconds.
        builder.timer(TokioTimer::new());
        builder.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        drivers.spawn(async move {
            // The result is ignored, because each pending call returns the reason why the connection ended.
            let _ = connection.await;
        });
        Ok(Self { sender })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}

impl tower_service::Service<Request<Body>> for Http2 {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.sender.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}
