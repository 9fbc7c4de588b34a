//! Keeps a stream of requests open for as long as its answers are used.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tonic::{Status, Streaming};

/// The answers to the requests of a stream, which stays open until this value is dropped.
pub(crate) struct Events<A> {
    // This field must be dropped before `_open`: once the answers are no longer read, the end of the requests resets
    // the stream.
    answers: Streaming<A>,
    /// The stream's [`Requests`] have the receiver of this sender.
    _open: oneshot::Sender<()>,
}

impl<A> Events<A> {
    pub(super) fn new(answers: Streaming<A>, open: oneshot::Sender<()>) -> Self {
        Self { answers, _open: open }
    }

    /// Returns the next answer; `None` if the server has ended the stream.
    pub(crate) async fn message(&mut self) -> Result<Option<A>, Status> {
        self.answers.message().await
    }
}

/// The requests of a stream.
pub(super) struct Requests<Q> {
    left: std::vec::IntoIter<Q>,
    /// Completes when the [`Events`] are dropped. Dropping only the answers is not enough, because HTTP/2 keeps a
    /// stream open as long as one of its halves is in use. The server would still send the events of every earlier
    /// watch.
    open: oneshot::Receiver<()>,
}

impl<Q> Requests<Q> {
    /// Returns requests whose stream stays open until the returned sender is dropped.
    pub(super) fn open(requests: Vec<Q>) -> (Self, oneshot::Sender<()>) {
        let (open, ended) = oneshot::channel();
        (Self { left: requests.into_iter(), open: ended }, open)
    }
}

impl<Q: Unpin> tokio_stream::Stream for Requests<Q> {
    type Item = Q;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Q>> {
        match self.left.next() {
            Some(request) => Poll::Ready(Some(request)),
            None => Pin::new(&mut self.open).poll(cx).map(|_ended| None),
        }
    }
}
