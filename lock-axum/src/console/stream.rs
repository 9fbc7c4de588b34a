//! Sends events to an open page.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum_core::body::Body;
use axum_core::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http_body::Frame;
use lock_core::clock::wall;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{interval, timeout};

use super::journal::millis;
use super::poll::Follower;
use super::problem::Problem;
use super::query::Query;
use super::served::Served;
use super::snapshot;

/// The duration of a stream. The page opens the next stream at once. A server that shuts down waits for its streams.
/// Without a limit, a stream would last as long as the page is open.
const LIFE: Duration = Duration::from_secs(10);
/// The time without a change after which the state is sent again. The repeated state updates the rest of each lease,
/// and shows that the connection is alive.
const QUIET: Duration = Duration::from_secs(5);
const END: &[u8] = b"event: end\ndata: end\n\n";

struct Viewer {
    served: Arc<Served>,
    follower: Follower,
    query: Query,
    read_only: bool,
    _page: OwnedSemaphorePermit,
}

/// Returns the stream of a viewer.
pub(super) fn open(served: Arc<Served>, query: Query, read_only: bool) -> Result<Response, Problem> {
    let page = served.page()?;
    let follower = served.poll.follow();
    let viewer = Viewer { served, follower, query, read_only, _page: page };
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        // The sender runs in its own task, because hyper polls a body only while the client reads.
        let _ = timeout(LIFE, viewer.send_to(&sender)).await;
        let _ = sender.send(Bytes::from_static(END)).await;
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        // Without this header, nginx would buffer the events of several seconds.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    Ok((headers, Body::new(Frames(receiver))).into_response())
}

impl Viewer {
    /// Sends snapshots until the page is closed.
    async fn send_to(mut self, page: &mpsc::Sender<Bytes>) {
        let mut quiet = interval(QUIET);
        let mut sent = None;
        // The place in the channel is reserved first, so that a slow client gets the newest snapshot.
        while let Ok(place) = page.reserve().await {
            let is_quiet = tokio::select! {
                () = page.closed() => return,
                changed = self.follower.changed() => match changed {
                    Ok(()) => false,
                    Err(_) => return,
                },
                _ = quiet.tick() => true,
            };
            // No poll has a result yet, so there is nothing to send.
            let Some(seen) = self.follower.borrow_and_update().clone() else { continue };
            let rendered = self.served.render(&seen, &self.query, self.read_only);
            let fingerprint = Some(snapshot::fingerprint(&rendered));
            if is_quiet || sent != fingerprint {
                let text = snapshot::with_time(millis(wall()), &rendered);
                place.send(format!("retry: 1000\nevent: state\ndata: {text}\n\n").into());
                sent = fingerprint;
                quiet.reset();
            }
        }
    }
}

/// The body of a stream.
struct Frames(mpsc::Receiver<Bytes>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}
