//! The future of an answer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use crate::body::LockBody;

type Answer<R, E> = Result<Response<LockBody<R>>, E>;
type Serving<R, E> = Pin<Box<dyn Future<Output = Answer<R, E>> + Send>>;

pin_project! {
    /// The answer of [`Lock`](crate::Lock).
    ///
    /// Dropping it, as a server does when its client has gone, drops the handler first; then the lock is given back in
    /// the background. Dropped while the lock is still being acquired, it leaves nothing behind.
    pub struct ResponseFuture<F, R, E>
    where
        R: Body,
    {
        #[pin]
        state: State<F, R, E>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R, E>
    where
        R: Body,
    {
        Unlocked { #[pin] inner: F },
        Locked { serving: Serving<R, E> },
    }
}

impl<F, R: Body, E> ResponseFuture<F, R, E> {
    pub(crate) fn unlocked(inner: F) -> Self {
        Self { state: State::Unlocked { inner } }
    }

    pub(crate) fn locked(serving: Serving<R, E>) -> Self {
        Self { state: State::Locked { serving } }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Answer<R, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Unlocked { inner } => {
                inner.poll(cx).map(|answer| answer.map(|response| response.map(LockBody::unlocked)))
            }
            StateProj::Locked { serving } => serving.as_mut().poll(cx),
        }
    }
}

impl<F, R: Body, E> fmt::Debug for ResponseFuture<F, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
