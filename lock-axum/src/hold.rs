//! How long the lock is held.

use http::{Method, StatusCode};
use http_body::Body;

/// Until when a request holds its lock.
///
/// Whichever is chosen, the release is awaited before the client can know that its answer is complete, so a client
/// that sends its next request after that never meets its own lock. The wait for the store is limited to a second; then
/// the release goes on in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hold {
    /// For a body whose exact length is known, such as JSON: as [`Handler`](Self::Handler). For a body that is still
    /// being made, such as a stream: as [`Body`](Self::Body). The default.
    #[default]
    Auto,
    /// Until the handler has returned its response. A body that is streamed after that is not protected.
    Handler,
    /// Until the body has ended: its last frame is held back until the body is over and the lock given back. When the
    /// lock is lost on the way, the body ends with an error and the connection is cut.
    ///
    /// An answer that has no body, such as one to HEAD, gives the lock back before its head is sent.
    Body,
}

impl Hold {
    /// Whether the lock is given back before the head is sent.
    pub(crate) fn ends_with_handler(
        self,
        method: &Method,
        status: StatusCode,
        announced: Option<u64>,
        body: &impl Body,
    ) -> bool {
        // A server drops the body of these without a look at it.
        let never_sent = method == Method::HEAD
            || (method == Method::CONNECT && status.is_success())
            || announced == Some(0)
            || status.is_informational()
            || status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED;
        match self {
            Self::Handler => true,
            Self::Auto => never_sent || body.is_end_stream() || body.size_hint().exact().is_some(),
            Self::Body => never_sent || body.is_end_stream(),
        }
    }
}
