//! The service: one request from key to answer.

use std::future::Future;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use lock_core::{LockError, LockErrorKind, LockGuard, LockScope};
use tower::Service;
use tracing::{Instrument, Span};

use crate::answer::LockRejection;
use crate::body::LockBody;
use crate::config::{Config, Mounted};
use crate::extract::{LockHandle, Unlocked};
use crate::future::ResponseFuture;
use crate::in_flight::Ticket;
use crate::key::NoKey;
use crate::layer::OnDisconnect;

/// How long an answer waits for its release; then the background goes on with it.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

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

/// From the request to its lock.
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
    if !config.options().concern(&parts) {
        return skip(inner, parts, body).await;
    }
    let keys = match config.keys().render(&mut parts).await {
        Ok(keys) => keys,
        Err(NoKey::Skip) => return skip(inner, parts, body).await,
        Err(why) => {
            if let Some(answer) = config.no_key(why, &parts) {
                return Ok(answer.map(LockBody::problem));
            }
            let response = pass(inner, Request::from_parts(parts, body)).await?;
            config.passed_without_route(response.status());
            return Ok(response);
        }
    };
    if let Err(rejection) = config.read_first(&mut body).await {
        return Ok(config.answer(rejection, Some(&parts)).map(LockBody::problem));
    }
    let ticket = match config.count(&keys) {
        Ok(ticket) => ticket,
        Err(rejection) => return Ok(config.answer(rejection, Some(&parts)).map(LockBody::problem)),
    };
    let guard = match config.request(keys).acquire().await {
        Ok(guard) => guard,
        Err(error) if config.runs_unlocked(&error) => {
            // That of a layer outside says nothing about this one.
            parts.extensions.remove::<LockHandle>();
            parts.extensions.insert(Unlocked::StoreDown(Arc::clone(&config)));
            return pass(inner, Request::from_parts(parts, body)).await;
        }
        Err(error) => {
            let rejection = config.refuse(&error, parts.version);
            return Ok(config.answer(rejection, Some(&parts)).map(LockBody::problem));
        }
    };
    parts.extensions.insert(LockHandle::new(guard.handle()));
    let version = parts.version;
    let head = config.options().answers.look_at_request().then(|| Arc::new(parts.clone()));
    let work = Work { config: Arc::clone(&config), head: head.clone(), guard, ticket };
    let work = work.serve(inner, Request::from_parts(parts, body));
    if config.options().on_disconnect == OnDisconnect::Cancel {
        return work.await;
    }
    match detached(work).await {
        Some(answer) => answer,
        None => {
            let rejection = config.refuse(&runtime_gone(), version);
            Ok(config.answer(rejection, head.as_deref()).map(LockBody::problem))
        }
    }
}

/// Serves a request that the layer does not concern.
async fn skip<S, B, R>(inner: S, mut parts: Parts, body: B) -> Result<Response<LockBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    // A layer outside may have more to say.
    parts.extensions.get_or_insert(Unlocked::Skipped);
    pass(inner, Request::from_parts(parts, body)).await
}

/// Serves a request without a lock.
async fn pass<S, B, R>(mut inner: S, request: Request<B>) -> Result<Response<LockBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    Ok(inner.call(request).await?.map(LockBody::unlocked))
}

/// A request that has its lock.
struct Work {
    config: Arc<Config>,
    /// For whoever makes an answer of a lost lock.
    head: Option<Arc<Parts>>,
    guard: LockGuard,
    ticket: Ticket,
}

impl Work {
    /// Runs the handler, and gives the lock back unless the body takes it along.
    async fn serve<S, B, R>(
        self,
        mut inner: S,
        request: Request<B>,
    ) -> Result<Response<LockBody<R>>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>>,
        R: Body,
    {
        let Self { config, head, guard, ticket } = self;
        let options = config.options();
        let (parts, body) = request.into_parts();
        let (method, version) = (parts.method.clone(), parts.version);
        let handler = async move {
            let answer = inner.call(Request::from_parts(parts, body)).await;
            // With this lock in it: a body that is held runs in the same scope as its handler.
            (answer, LockScope::current())
            // The service is dropped here, before the lock is given back.
        };
        let (answer, scope) = match guard.run_on_lost(options.on_lost, handler).await {
            Ok(answered) => answered,
            Err(lost) => {
                let rejection = config.refuse(&lost, version);
                return Ok(config.answer(rejection, head.as_deref()).map(LockBody::problem));
            }
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
        if options.hold.ends_with_handler(&method, response.status(), announced, response.body()) {
            give_back(guard).await;
            drop(ticket);
            return Ok(response.map(LockBody::unlocked));
        }
        let on_lost = options.on_lost;
        Ok(response.map(|body| LockBody::held(body, guard, scope, (announced, version), on_lost, ticket)))
    }
}

/// Runs `work` in a task of its own, which goes on when nobody waits for it any more. `None` when its runtime ends
/// before it does, which a caller in another one lives to see.
async fn detached<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    // A task knows nothing of the locks of the one that started it.
    let work = LockScope::current().enter(work).instrument(Span::current());
    match tokio::spawn(work).await {
        Ok(done) => Some(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

fn runtime_gone() -> LockError {
    LockError::new(LockErrorKind::ShuttingDown, "the runtime of the handler ended before the handler")
}

/// Waits for the release, but not for long: the answer does not depend on it.
pub(crate) async fn give_back(guard: LockGuard) {
    // What goes wrong the lock tells by itself, and the background goes on with it.
    let _ = tokio::time::timeout(RELEASE_PATIENCE, guard.release()).await;
}
