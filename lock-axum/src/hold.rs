//! Defines how long a request holds its lock.

use http::{Method, StatusCode};
use http_body::Body;

/// The event after which the lock of a request is released.
///
/// In each case the layer awaits the release before the answer to the client is complete. So a client that waits for
/// each answer before its next request is never refused because of its own lock. The layer waits for the store for at
/// most a second. After that time, the release continues in the background. With
/// [`Release::Background`](lock_core::Release::Background) the layer does not wait: see
/// [`LockLayer::release`](crate::LockLayer::release).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hold {
    /// This is the default. Acts as [`Handler`](Self::Handler) if the exact length of the body is known, such as for
    /// JSON. Acts as [`Body`](Self::Body) if the body is still being produced, such as for a stream.
    #[default]
    Auto,
    /// The lock is held until the handler has returned its response. A body that is streamed afterwards is not
    /// protected.
    Handler,
    /// The lock is held until the body has ended. The last frame is held back until the lock is released. If the lock
    /// is lost earlier, the body ends with an error and the connection is cut.
    ///
    /// If an answer has no body, such as the answer to a HEAD request, the lock is released before the head is sent.
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
        // A server drops the bodies of such answers without polling them.
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
