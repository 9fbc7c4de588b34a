//! How long a request holds its lock.

use http::{Method, StatusCode};
use http_body::Body;

/// The end of the time for which a request holds its lock.
///
/// In each case the layer awaits the release before the client can know that its answer is complete. So a client that
/// sends its next request after that never finds its own lock. The layer waits for the store for at most a second; then
/// the release continues in the background. With [`Release::Background`](lock_core::Release::Background) it does not
/// wait: see [`LockLayer::release`](crate::LockLayer::release).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hold {
    /// [`Handler`](Self::Handler) if the exact length of the body is known, as for JSON; [`Body`](Self::Body) if the
    /// body is still being produced, as for a stream. The default.
    #[default]
    Auto,
    /// The lock is held until the handler has returned its response. A body that is streamed after that is not
    /// protected.
    Handler,
    /// The lock is held until the body has ended. The last frame is held back until the lock is released. If the lock
    /// is lost before that, the body ends with an error and the connection is cut.
    ///
    /// If an answer has no body, as one to HEAD, the lock is released before the head is sent.
    Body,
}

impl Hold {
    /// Returns whether the lock is released before the head is sent.
    pub(crate) fn ends_with_handler(
        self,
        method: &Method,
        status: StatusCode,
        announced: Option<u64>,
        body: &impl Body,
    ) -> bool {
        // A server drops the bodies of these without polling them.
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
