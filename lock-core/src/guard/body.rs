//! Running a body under a guard: dropped when the lock is lost, and always before the lock is given back.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::guard::LockGuard;
use super::scope::LockScope;
use crate::error::{LockError, LossReason, Result};
use crate::lease::Lease;

/// What happens to the body when the lock is lost while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLost {
    /// The body is dropped at its current await point, and the caller gets `Lost`. The default.
    #[default]
    Cancel,
    /// The body goes on to its end, and the caller gets `Lost` after that. For work that must not stop half way and
    /// whose effects are fenced.
    Finish,
}

/// How long a caller waits for its release to be answered; then the background goes on with it.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

/// Runs `body` under `guard`, then gives it back.
pub(crate) fn under<F: Future>(guard: LockGuard, on_lost: OnLost, body: Pin<Box<F>>) -> Locked<F> {
    let inside = Inside::new(guard.lease(), on_lost);
    Locked::new(body, Stage::Inside(inside, Some(guard)), on_lost)
}

/// Runs `body` under `guard`, which goes on holding.
pub(crate) fn inside<F: Future>(guard: &LockGuard, on_lost: OnLost, body: Pin<Box<F>>) -> Locked<F> {
    Locked::new(body, Stage::Inside(Inside::new(guard.lease(), on_lost), None), on_lost)
}

impl LockGuard {
    /// Runs `body` under this lock, which is held on afterwards: as [`LockRequest::run`](crate::LockRequest::run), for
    /// callers that decide themselves when to release. A nested request for the same key enters the grant again; when
    /// the lock is lost, the body is dropped at its current await point.
    ///
    /// # Errors
    /// [`Lost`](crate::LockErrorKind::Lost) when the lock was lost before the body ended: what it did so far is not undone.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body; the guard goes on holding.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("account:7").acquire().await?;
    /// let sum = guard.run(async { 20 + 22 }).await?;
    /// assert!(guard.is_held());
    /// guard.release().await?;
    /// # assert_eq!(sum, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F: Future>(&self, body: F) -> Result<F::Output> {
        self.run_on_lost(OnLost::Cancel, body).await
    }

    /// As [`run`](Self::run), with a choice of what becomes of the body when the lock is lost. With
    /// [`OnLost::Finish`] it comes to its end, and the caller is told after it.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_on_lost<F: Future>(&self, on_lost: OnLost, body: F) -> Result<F::Output> {
        self.lease().check_own_process()?;
        inside(self, on_lost, Box::pin(body)).await
    }
}

/// A guard that is waited for.
#[cfg_attr(not(feature = "macros"), allow(dead_code, reason = "what the attribute asks for"))]
pub(crate) type Asking = Pin<Box<dyn Future<Output = Result<LockGuard>> + Send>>;

/// Waits for a guard, runs `body` under it, then gives it back.
#[cfg(feature = "macros")]
pub(crate) fn after<F: Future>(asking: Asking, on_lost: OnLost, body: Pin<Box<F>>) -> Locked<F> {
    Locked::new(body, Stage::Asking(asking), on_lost)
}

/// A body and its lock.
///
/// A program has one of these for each of its locked functions, and the compiler translates each. So there is little in
/// it: what does not depend on the body is in [`Frame`].
pub(crate) struct Locked<F: Future> {
    body: Body<F>,
    /// After the body, which is dropped first.
    frame: Frame,
}

impl<F: Future> Locked<F> {
    fn new(body: Pin<Box<F>>, stage: Stage, on_lost: OnLost) -> Self {
        Self { body: Body { future: Some(body), output: None }, frame: Frame { stage, on_lost } }
    }
}

impl<F: Future> Future for Locked<F> {
    type Output = Result<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = Pin::get_mut(self);
        match this.frame.poll(&mut this.body, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => match this.body.output.take() {
                Some(output) => Poll::Ready(Ok(output)),
                None => unreachable!("BUG: a body that ended has an output"),
            },
        }
    }
}

// The future is in a box, and an output is moved anyway.
impl<F: Future> Unpin for Locked<F> {}

impl<F: Future> Drop for Locked<F> {
    fn drop(&mut self) {
        self.frame.end(&mut self.body);
    }
}

/// The body, until it has ended, and then its output.
struct Body<F: Future> {
    future: Option<Pin<Box<F>>>,
    output: Option<F::Output>,
}

/// A body whose type does not matter.
trait AnyBody {
    /// Goes on; the output stays with the body. One that has ended is pending for ever.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
    /// Drops the future, if it is still there.
    fn end(&mut self);
}

impl<F: Future> AnyBody for Body<F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        match future.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(output) => {
                self.output = Some(output);
                Poll::Ready(())
            }
        }
    }

    fn end(&mut self) {
        self.future = None;
    }
}

/// What is around a body, whatever that is.
struct Frame {
    stage: Stage,
    on_lost: OnLost,
}

enum Stage {
    /// Nothing has started.
    #[cfg_attr(not(feature = "macros"), allow(dead_code, reason = "only the attribute asks from inside"))]
    Asking(Asking),
    /// The body runs; the guard is there when it is to be given back after that.
    Inside(Inside, Option<LockGuard>),
    /// The body is gone.
    Releasing(Pin<Box<dyn Future<Output = ()> + Send>>),
    Over,
}

impl Frame {
    /// Goes on with whatever is next. Once this is ready the body is gone, before its guard.
    fn poll(&mut self, body: &mut dyn AnyBody, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            let outcome = match &mut self.stage {
                Stage::Asking(asking) => match ready!(asking.as_mut().poll(cx)) {
                    Ok(guard) => {
                        self.stage = Stage::Inside(Inside::new(guard.lease(), self.on_lost), Some(guard));
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Stage::Inside(inside, guard) => match (ready!(inside.poll(body, cx)), guard.take()) {
                    (Ok(()), Some(guard)) => {
                        self.stage = Stage::Releasing(Box::pin(guard.release_within(RELEASE_PATIENCE)));
                        continue;
                    }
                    (outcome, _) => outcome,
                },
                Stage::Releasing(releasing) => {
                    ready!(releasing.as_mut().poll(cx));
                    Ok(())
                }
                Stage::Over => unreachable!("BUG: polled after it was ready"),
            };
            self.end(body);
            self.stage = Stage::Over;
            return Poll::Ready(outcome);
        }
    }

    /// Drops what is left of the body where it ran.
    fn end(&self, body: &mut dyn AnyBody) {
        match &self.stage {
            Stage::Inside(inside, _) => inside.end(body),
            Stage::Asking(_) | Stage::Releasing(_) | Stage::Over => body.end(),
        }
    }
}

/// A body under its lock: what its task knows, and what ends it.
struct Inside {
    lease: Arc<Lease>,
    scope: LockScope,
    /// What tells of a loss, when a loss cancels. Made when the body waits for the first time.
    lost: Option<Pin<Box<dyn Future<Output = LossReason> + Send>>>,
    cancels: bool,
}

impl Inside {
    fn new(lease: &Arc<Lease>, on_lost: OnLost) -> Self {
        Self {
            lease: Arc::clone(lease),
            scope: LockScope::current().with_lease(lease),
            lost: None,
            cancels: on_lost == OnLost::Cancel,
        }
    }

    /// Polls `body`, unless the lock is lost. Once this is ready, the body is gone.
    fn poll(&mut self, body: &mut dyn AnyBody, cx: &mut Context<'_>) -> Poll<Result<()>> {
        // The clock is read before every poll: after a pause of the whole process the body must not run on.
        if self.cancels
            && let Some(reason) = self.lease.loss()
        {
            return Poll::Ready(self.cancel(body, reason));
        }
        if self.within(|| body.poll(cx)).is_ready() {
            self.end(body);
            return Poll::Ready(self.lease.check());
        }
        if !self.cancels {
            return Poll::Pending;
        }
        let lease = &self.lease;
        let lost = self.lost.get_or_insert_with(|| {
            let lease = Arc::clone(lease);
            Box::pin(async move { lease.lost().await })
        });
        let reason = ready!(lost.as_mut().poll(cx));
        Poll::Ready(self.cancel(body, reason))
    }

    fn cancel(&self, body: &mut dyn AnyBody, reason: LossReason) -> Result<()> {
        self.end(body);
        Err(LockError::lost(&self.lease.claim.key, reason))
    }

    /// Drops what is left of the body where it ran.
    fn end(&self, body: &mut dyn AnyBody) {
        let _entered = self.lease.span.enter();
        // By the drop of a future: that never panics, also where a thread that ends has no task-locals any more.
        drop(self.scope.clone().enter(Ending(body)));
    }

    fn within<R>(&self, act: impl FnOnce() -> R) -> R {
        let _entered = self.lease.span.enter();
        self.scope.within(act)
    }
}

/// Ends the body when it is dropped.
struct Ending<'a>(&'a mut dyn AnyBody);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Future for Ending<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}
