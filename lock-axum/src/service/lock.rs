//! Defines the tower service that a layer makes.

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

/// A service that runs each request of the wrapped service under its lock. [`LockLayer`](crate::LockLayer) makes it.
///
/// If a request does not get its lock, the answer is a [`LockRejection`] and never an error. So this service has the
/// error type of the wrapped service.
#[derive(Clone, Debug)]
pub struct Lock<S> {
    inner: S,
    mounted: Mounted,
}

impl<S> Lock<S> {
    pub(crate) fn new(inner: S, mounted: Mounted) -> Self {
        Self { inner, mounted }
    }

    /// Returns a reference to the wrapped service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns a mutable reference to the wrapped service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the wrapped service.
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

    // The lock is acquired in the future of `call`, because the key depends on the request. If a lock were acquired
    // here, a caller that polls but never calls would hold it.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let config = match &self.mounted {
            Mounted::Valid(config) => Arc::clone(config),
            Mounted::Invalid(answers) => {
                let (parts, _) = request.into_parts();
                let answer = answers.response(LockRejection::misconfigured(), Some(&parts));
                return ResponseFuture::new(std::future::ready(Ok(answer.map(LockBody::problem))));
            }
        };
        // `poll_ready` has made only `self.inner` ready, and not its clones. So `self.inner` handles the request, and a
        // clone replaces it.
        let not_ready_inner = self.inner.clone();
        let ready_inner = mem::replace(&mut self.inner, not_ready_inner);
        ResponseFuture::new(serve(config, ready_inner, request))
    }
}

/// Serves one request: acquires its lock, runs the handler, and returns the answer.
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
    let (lock, permit) = match admit(&config, &mut parts, &mut body).await {
        Ok(Admitted::Locked(guard, on_lost, permit)) => ((guard, on_lost), permit),
        Ok(Admitted::Unlocked(_permit)) => return unlocked(inner, parts, body).await,
        Ok(Admitted::Unrouted) => {
            let response = unlocked(inner, parts, body).await?;
            config.served_without_route(response.status());
            return Ok(response);
        }
        Err(answer) => return Ok(answer.map(LockBody::problem)),
    };
    Work::new(config, &parts, lock, permit).serve(inner, Request::from_parts(parts, body)).await
}

/// Serves a request without a lock.
async fn unlocked<S, B, R>(mut inner: S, parts: Parts, body: B) -> Result<Response<LockBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    Ok(inner.call(Request::from_parts(parts, body)).await?.map(LockBody::unlocked))
}
