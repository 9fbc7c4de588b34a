//! The service: one request from key to answer.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body::Body;
use lock_core::{LockGuard, LockScope};
use tower::Service;

use crate::body::LockBody;
use crate::config::Config;
use crate::extract::LockHandle;
use crate::future::ResponseFuture;

/// How long an answer waits for its release; then the background goes on with it.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

/// Runs each request of `inner` under its lock; made by [`LockLayer`](crate::LockLayer).
///
/// A request that gets no lock is answered with a [`LockRejection`](crate::LockRejection), never with an error, so the
/// error type is that of `inner`.
#[derive(Clone, Debug)]
pub struct Lock<S> {
    inner: S,
    config: Arc<Config>,
}

impl<S> Lock<S> {
    pub(crate) fn new(inner: S, config: Arc<Config>) -> Self {
        Self { inner, config }
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
        // `poll_ready` has made `self.inner` ready, and not its clones: the ready one goes with the request.
        let not_ready_inner = self.inner.clone();
        let ready_inner = mem::replace(&mut self.inner, not_ready_inner);
        let config = Arc::clone(&self.config);
        ResponseFuture::new(serve(config, ready_inner, request))
    }
}

async fn serve<S, B, R>(
    config: Arc<Config>,
    mut inner: S,
    request: Request<B>,
) -> Result<Response<LockBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    let (mut parts, body) = request.into_parts();
    let keys = match config.keys().render(&mut parts).await {
        Ok(keys) => keys,
        Err(why) => {
            if let Some(rejection) = config.no_key(why) {
                return Ok(rejection.into_response_with(LockBody::problem));
            }
            let response = inner.call(Request::from_parts(parts, body)).await?;
            config.passed_without_route(response.status());
            return Ok(response.map(LockBody::unlocked));
        }
    };
    let (method, version) = (parts.method.clone(), parts.version);
    let guard = match config.request(keys).acquire().await {
        Ok(guard) => guard,
        Err(error) => return Ok(config.refuse(&error, version).into_response_with(LockBody::problem)),
    };
    parts.extensions.insert(LockHandle::new(guard.handle()));
    let handler = async move {
        let answer = inner.call(Request::from_parts(parts, body)).await;
        // With this lock in it: a body that is held runs in the same scope as its handler.
        (answer, LockScope::current())
        // The service is dropped here, before the lock is given back.
    };
    let (answer, scope) = match guard.run(handler).await {
        Ok(answered) => answered,
        Err(lost) => return Ok(config.refuse(&lost, version).into_response_with(LockBody::problem)),
    };
    let response = match answer {
        Ok(response) => response,
        Err(error) => {
            give_back(guard).await;
            return Err(error);
        }
    };
    let announced =
        response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if config.hold().ends_with_handler(&method, response.status(), announced, response.body()) {
        give_back(guard).await;
        return Ok(response.map(LockBody::unlocked));
    }
    Ok(response.map(|body| LockBody::held(body, guard, scope, announced)))
}

/// Waits for the release, but not for long: the answer does not depend on it.
pub(crate) async fn give_back(guard: LockGuard) {
    let lock = guard.handle();
    match tokio::time::timeout(RELEASE_PATIENCE, guard.release()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) if error.is_lost() => {}
        Ok(Err(error)) => {
            tracing::warn!(lock.key = lock.key(), %error, "release failed; it goes on in the background");
        }
        Err(_) => {
            tracing::warn!(lock.key = lock.key(), "release not answered yet; it goes on in the background")
        }
    }
}
