//! Runs the handler of a request that has its lock, and returns the answer.

use std::future::Future;
use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use lock_core::{LockError, LockErrorKind, LockGuard, LockScope, OnLost};
use tower::Service;
use tracing::{Instrument, Span};

use super::body::LockBody;
use super::caught::caught;
use super::release::release;
use crate::config::{Config, OnDisconnect};
use crate::in_use::InUse;
use crate::key_limit::KeyPermit;

/// A request with its lock.
pub(super) struct Work {
    config: Arc<Config>,
    /// The head of the request. `None` if the answer after a loss does not need the head.
    head: Option<Arc<Parts>>,
    guard: LockGuard,
    /// Whether the handler is dropped when the lock is lost.
    on_lost: OnLost,
    in_use: InUse,
}

impl Work {
    pub(super) fn new(
        config: Arc<Config>,
        head: &Parts,
        (guard, on_lost): (LockGuard, OnLost),
        permit: KeyPermit,
    ) -> Self {
        let head = config.options().answers.respond.is_some().then(|| Arc::new(head.clone()));
        let in_use = config.options().use_times.begin(permit);
        Self { config, head, guard, on_lost, in_use }
    }

    /// Runs the handler. If the handler must continue after its client disconnects, it runs in its own task.
    pub(super) async fn serve<S, B, R>(
        self,
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
        if self.config.options().on_disconnect == OnDisconnect::Cancel {
            return self.run(inner, request).await;
        }
        let (config, head, version) = (Arc::clone(&self.config), self.head.clone(), request.version());
        match detached(self.run(inner, request)).await {
            Some(answer) => answer,
            None => Ok(config.refused(&runtime_gone(), version, head.as_deref()).map(LockBody::problem)),
        }
    }

    /// Runs the handler. Then releases the lock, or passes the lock on to the body of the answer.
    async fn run<S, B, R>(self, mut inner: S, request: Request<B>) -> Result<Response<LockBody<R>>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>>,
        R: Body,
    {
        let Self { config, head, guard, on_lost, in_use } = self;
        let options = config.options();
        let (parts, body) = request.into_parts();
        let (method, version) = (parts.method.clone(), parts.version);
        let handler = async move {
            let answer = caught(async move { inner.call(Request::from_parts(parts, body)).await }).await;
            // This scope contains the lock. If the body carries the lock, the body later runs in this scope too.
            (answer, LockScope::current())
            // The service is dropped here, before the lock is released.
        };
        let (answer, scope) = match guard.run_on_lost(on_lost, handler).await {
            Ok(answered) => answered,
            Err(lost) => return Ok(config.refused(&lost, version, head.as_deref()).map(LockBody::problem)),
        };
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                release(guard).await;
                return Err(error);
            }
            Err(panic) => {
                release(guard).await;
                std::panic::resume_unwind(panic);
            }
        };
        let announced =
            response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if options.hold.ends_with_handler(&method, response.status(), announced, response.body()) {
            release(guard).await;
            drop(in_use);
            return Ok(response.map(LockBody::unlocked));
        }
        Ok(response.map(|body| LockBody::held(body, guard, scope, (announced, version), on_lost, in_use)))
    }
}

/// Runs `work` in its own task, which continues if the caller is dropped. Returns `None` if the runtime of the task
/// shuts down first. Only a caller on another runtime can get `None`.
async fn detached<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    // A new task does not inherit the locks of the task that spawns it.
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
