//! The tower service of a layer.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tower::Service;

use super::admission::{Admitted, admit};
use super::body::LockBody;
use super::future::ResponseFuture;
use super::work::Work;
use crate::answer::LockRejection;
use crate::config::{Config, Mounted};

/// Runs each request of `inner` under its lock; made by [`LockLayer`](crate::LockLayer).
///
/// A request that gets no lock is answered with a [`LockRejection`], never with an error, so the
/// error type is that of `inner`.
#[derive(Clone, Debug)]
pub struct Lock<S> {
    inner: S,
    mounted: Mounted,
}

impl<S> Lock<S> {
    pub(crate) fn new(inner: S, mounted: Mounted) -> Self {
        Self { inner, mounted }
    }

    /// The wrapped service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The wrapped service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The wrapped service.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for Lock<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: Body + Send + 'static,
    R::Data: Send,
{
    type Response = Response<LockBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<R, S::Error>;

    // The key depends on the request, so the lock is taken in the future: what is reserved here would be kept by a
    // caller that asks and never calls.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let config = match &self.mounted {
            Mounted::Sound(config) => Arc::clone(config),
            Mounted::Broken(answers) => {
                let (parts, _) = request.into_parts();
                let answer = answers.response(LockRejection::misconfigured(), Some(&parts));
                return ResponseFuture::new(std::future::ready(Ok(answer.map(LockBody::problem))));
            }
        };
        // `poll_ready` has made `self.inner` ready, and not its clones: the ready one goes with the request.
        let not_ready_inner = self.inner.clone();
        let ready_inner = mem::replace(&mut self.inner, not_ready_inner);
        ResponseFuture::new(serve(config, ready_inner, request))
    }
}

/// Takes the lock of a request, and runs its handler.
async fn serve<S, B, R>(
    config: Arc<Config>,
    inner: S,
    request: Request<B>,
) -> Result<Response<LockBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: Body + Send + 'static,
    R::Data: Send,
{
    let (mut parts, mut body) = request.into_parts();
    let (guard, permit) = match admit(&config, &mut parts, &mut body).await {
        Ok(Admitted::Locked(guard, permit)) => (guard, permit),
        Ok(Admitted::Unlocked(_permit)) => return unlocked(inner, parts, body).await,
        Ok(Admitted::Unrouted) => {
            let response = unlocked(inner, parts, body).await?;
            config.passed_without_route(response.status());
            return Ok(response);
        }
        Err(answer) => return Ok(answer.map(LockBody::problem)),
    };
    Work::new(config, &parts, guard, permit).serve(inner, Request::from_parts(parts, body)).await
}

/// Serves a request without a lock.
async fn unlocked<S, B, R>(mut inner: S, parts: Parts, body: B) -> Result<Response<LockBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    Ok(inner.call(Request::from_parts(parts, body)).await?.map(LockBody::unlocked))
}
