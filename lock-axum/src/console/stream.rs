//! The events that the server sends to an open page.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum_core::body::Body;
use axum_core::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http_body::Frame;
use lock_core::clock::wall;
use tokio::time::{Sleep, sleep};

use super::journal::millis;
use super::poll::Follower;
use super::query::Query;
use super::served::Served;
use super::snapshot;

/// How long a stream lasts. The page opens the next one at once. A server that shuts down waits for the streams, which
/// would otherwise last as long as the page is open.
const LIFE: Duration = Duration::from_secs(10);
/// After this time without a change, a comment shows that the connection is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(4);

/// A page that is open.
struct Viewer {
    served: Arc<Served>,
    follower: Follower,
    query: Query,
    read_only: bool,
    /// What was sent last, without its time.
    sent: String,
    life: Pin<Box<Sleep>>,
    is_over: bool,
}

/// Returns the stream of a viewer.
pub(super) fn open(served: Arc<Served>, query: Query, read_only: bool) -> Response {
    let follower = served.poll.follow();
    let life = Box::pin(sleep(LIFE));
    let viewer = Viewer { served, follower, query, read_only, sent: String::new(), life, is_over: false };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        // nginx would collect the events of several seconds.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::new(Frames(Some(Box::pin(viewer.next()))))).into_response()
}

impl Viewer {
    /// Returns the next part of the stream, and the viewer for the part after it.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if self.is_over {
            return None;
        }
        let mut quiet = std::pin::pin!(sleep(KEEP_ALIVE));
        loop {
            tokio::select! {
                biased;
                () = self.life.as_mut() => {
                    self.is_over = true;
                    return Some((Bytes::from_static(b"event: end\ndata: end\n\n"), self));
                }
                changed = self.follower.changed() => changed.ok()?,
                () = quiet.as_mut() => return Some((Bytes::from_static(b":\n\n"), self)),
            }
            let Some(seen) = self.follower.borrow_and_update().clone() else { continue };
            let rendered = self.served.render(&seen, &self.query, self.read_only);
            if rendered != self.sent {
                let text = snapshot::at(millis(wall()), &rendered);
                self.sent = rendered;
                return Some((format!("retry: 1000\nevent: state\ndata: {text}\n\n").into(), self));
            }
        }
    }
}

/// The body of a stream.
struct Frames(Option<Pin<Box<dyn Future<Output = Option<(Bytes, Viewer)>> + Send>>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(next) = &mut self.0 else { return Poll::Ready(None) };
        let (part, next) = ready!(next.as_mut().poll(cx)).unzip();
        self.0 =
            next.map(|viewer: Viewer| -> Pin<Box<dyn Future<Output = _> + Send>> { Box::pin(viewer.next()) });
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }
}
