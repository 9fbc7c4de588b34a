//! Defines the future that the service returns.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use http_body::Body;

use super::body::LockBody;

type Answer<R, E> = Result<Response<LockBody<R>>, E>;

/// The future that [`Lock`](crate::Lock) returns.
///
/// A server drops this future when its client disconnects. The handler is then dropped first, and the lock is released
/// in the background. If the future is dropped while the lock is still being acquired, no lock remains.
pub struct ResponseFuture<R: Body, E> {
    // The future is boxed, because the types of the async functions that acquire and release a lock have no names.
    serving: Pin<Box<dyn Future<Output = Answer<R, E>> + Send>>,
}

impl<R: Body, E> ResponseFuture<R, E> {
    pub(crate) fn new(serving: impl Future<Output = Answer<R, E>> + Send + 'static) -> Self {
        Self { serving: Box::pin(serving) }
    }
}

impl<R: Body, E> Future for ResponseFuture<R, E> {
    type Output = Answer<R, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.serving.as_mut().poll(cx)
    }
}

impl<R: Body, E> fmt::Debug for ResponseFuture<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
