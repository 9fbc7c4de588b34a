//! A request that has its lock, from the call of the handler to its answer.

use std::future::Future;
use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use lock_core::{LockError, LockErrorKind, LockGuard, LockScope};
use tower::Service;
use tracing::{Instrument, Span};

use super::body::LockBody;
use super::release::release;
use crate::config::{Config, OnDisconnect};
use crate::key_limit::KeyPermit;

/// A request that has its lock.
pub(super) struct Work {
    config: Arc<Config>,
    /// For whoever makes an answer of a lost lock.
    head: Option<Arc<Parts>>,
    guard: LockGuard,
    permit: KeyPermit,
}

impl Work {
    pub(super) fn new(config: Arc<Config>, head: &Parts, guard: LockGuard, permit: KeyPermit) -> Self {
        let head = config.options().answers.look_at_request().then(|| Arc::new(head.clone()));
        Self { config, head, guard, permit }
    }

    /// Runs the handler as [`OnDisconnect`] says.
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

    /// Runs the handler, and gives the lock back unless the body takes it along.
    async fn run<S, B, R>(self, mut inner: S, request: Request<B>) -> Result<Response<LockBody<R>>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>>,
        R: Body,
    {
        let Self { config, head, guard, permit } = self;
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
            Err(lost) => return Ok(config.refused(&lost, version, head.as_deref()).map(LockBody::problem)),
        };
        let response = match answer {
            Ok(response) => response,
            Err(error) => {
                release(guard).await;
                return Err(error);
            }
        };
        let announced =
            response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if options.hold.ends_with_handler(&method, response.status(), announced, response.body()) {
            release(guard).await;
            drop(permit);
            return Ok(response.map(LockBody::unlocked));
        }
        let on_lost = options.on_lost;
        Ok(response.map(|body| LockBody::held(body, guard, scope, (announced, version), on_lost, permit)))
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
