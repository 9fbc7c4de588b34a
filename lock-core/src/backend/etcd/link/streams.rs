//! Keeps a stream of requests open for as long as its answers are used.

use tokio::sync::mpsc;
use tonic::{Status, Streaming};

/// The answers to the request of a stream, which stays open until this value is dropped.
pub(crate) struct Events<Q, A> {
    // This field must be dropped before `_open`: once the answers are no longer read, the end of the requests resets
    // the stream.
    pub(super) answers: Streaming<A>,
    /// The sender of the stream's requests. Dropping only the answers does not end the stream, because HTTP/2 keeps a
    /// stream open as long as one of its halves is in use. The server would still send the events of every earlier
    /// watch.
    pub(super) _open: mpsc::Sender<Q>,
}

impl<Q, A> Events<Q, A> {
    /// Returns the next answer; `None` if the server has ended the stream.
    pub(crate) async fn message(&mut self) -> Result<Option<A>, Status> {
        self.answers.message().await
    }
}
