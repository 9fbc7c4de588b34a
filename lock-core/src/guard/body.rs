//! Runs a body, which is code that needs the lock, under a guard. If the lock is lost, the body is dropped, except with
//! [`OnLost::Finish`]. The body is always dropped before the lock is released.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::guard::LockGuard;
use super::scope::LockScope;
use crate::error::{LossReason, Result};
use crate::lease::Lease;
use crate::options::OnLost;

/// How long a caller waits for the answer to its release. A release that takes longer continues in the background.
pub(crate) const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

/// Runs `body` under `guard`, then releases the lock.
pub(crate) fn under<F: Future>(guard: LockGuard, on_lost: OnLost, body: Pin<Box<F>>) -> Locked<F> {
    let inside = Inside::new(guard.lease(), on_lost);
    Locked::new(body, Stage::Inside(inside, Some(guard)))
}

/// Runs `body` under `guard`, which still holds the lock afterwards.
pub(crate) fn inside<F: Future>(guard: &LockGuard, on_lost: OnLost, body: Pin<Box<F>>) -> Locked<F> {
    Locked::new(body, Stage::Inside(Inside::new(guard.lease(), on_lost), None))
}

impl LockGuard {
    /// Runs `body` under this lock. Unlike [`LockRequest::run`](crate::LockRequest::run), this does not release the
    /// lock afterwards. A nested request for the same key enters the existing grant. If the lock is lost, the body is
    /// dropped at its current await point.
    ///
    /// # Errors
    /// [`Lost`](crate::LockErrorKind::Lost) if the lock was lost before the body ended. The effects of the body are not
    /// undone.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body. The guard still holds the lock.
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

    /// Runs `body` like [`run`](Self::run). `on_lost` selects what happens to the body if the lock is lost. With
    /// [`OnLost::Finish`] the body runs to its end, and the caller then receives the error.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_on_lost<F: Future>(&self, on_lost: OnLost, body: F) -> Result<F::Output> {
        // If the lock was released early, the body must not run.
        self.lease().check_ended()?;
        inside(self, on_lost, Box::pin(body)).await
    }
}

/// A future that acquires the guard. The second value of its output selects what happens to the body if the lock is
/// lost.
#[cfg_attr(not(feature = "macros"), allow(dead_code, reason = "what the attribute asks for"))]
pub(crate) type Asking = Pin<Box<dyn Future<Output = Result<(LockGuard, OnLost)>> + Send>>;

/// Waits for a guard, runs `body` under that guard, and then releases the lock.
#[cfg(feature = "macros")]
pub(crate) fn after<F: Future>(asking: Asking, body: Pin<Box<F>>) -> Locked<F> {
    Locked::new(body, Stage::Asking(asking))
}

/// A body and its lock.
///
/// The compiler generates this code for each locked function of a program, so it must be small. Everything that does
/// not depend on the type of the body is in [`Stage`].
pub(crate) struct Locked<F: Future> {
    body: Body<F>,
    /// This field is declared after the body, so the body is dropped first.
    stage: Stage,
}

impl<F: Future> Locked<F> {
    fn new(body: Pin<Box<F>>, stage: Stage) -> Self {
        Self { body: Body { future: Some(body), output: None }, stage }
    }
}

impl<F: Future> Future for Locked<F> {
    type Output = Result<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = Pin::get_mut(self);
        match this.stage.poll(&mut this.body, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => match this.body.output.take() {
                Some(output) => Poll::Ready(Ok(output)),
                None => unreachable!("BUG: a body that ended has an output"),
            },
        }
    }
}

// The future is pinned in its own box, and the output is never pinned.
impl<F: Future> Unpin for Locked<F> {}

impl<F: Future> Drop for Locked<F> {
    fn drop(&mut self) {
        // Dropping the fields directly would drop the body outside its span and scope.
        self.stage.end(&mut self.body);
    }
}

/// The future of a body, or its output after it has ended.
struct Body<F: Future> {
    future: Option<Pin<Box<F>>>,
    output: Option<F::Output>,
}

/// A body of any type.
trait AnyBody {
    /// Polls the body, and stores its output in this value. If the body has ended before, returns `Pending`.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
    /// Drops the future of the body, if it still exists.
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

/// The part of a locked body that does not depend on its type.
enum Stage {
    /// The lock is being acquired, and the body has not started.
    #[cfg_attr(not(feature = "macros"), allow(dead_code, reason = "only the attribute asks from inside"))]
    Asking(Asking),
    /// The body runs. If the guard is `Some`, the lock is released after the body.
    Inside(Inside, Option<LockGuard>),
    /// The body has ended, and the lock is being released.
    Releasing(Pin<Box<dyn Future<Output = ()> + Send>>),
    Over,
}

impl Stage {
    /// Runs the stages one after another. The body is dropped before its guard.
    fn poll(&mut self, body: &mut dyn AnyBody, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            let outcome = match self {
                Self::Asking(asking) => match ready!(asking.as_mut().poll(cx)) {
                    Ok((guard, on_lost)) => {
                        *self = Self::Inside(Inside::new(guard.lease(), on_lost), Some(guard));
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Self::Inside(inside, guard) => match (ready!(inside.poll(body, cx)), guard.take()) {
                    (Ok(()), Some(guard)) => {
                        // The result of the release is not returned, because it must not replace the output of the
                        // body. A failed release is logged.
                        *self = Self::Releasing(Box::pin(guard.release_within(RELEASE_PATIENCE)));
                        continue;
                    }
                    // The guard may be dropped here, because `inside.poll` has dropped the body. The background then
                    // releases the grant.
                    (outcome, _) => outcome,
                },
                Self::Releasing(releasing) => {
                    ready!(releasing.as_mut().poll(cx));
                    Ok(())
                }
                Self::Over => unreachable!("BUG: polled after it was ready"),
            };
            self.end(body);
            *self = Self::Over;
            return Poll::Ready(outcome);
        }
    }

    /// Drops the future of the body, inside the span and the scope of its lock.
    fn end(&self, body: &mut dyn AnyBody) {
        match self {
            Self::Inside(inside, _) => inside.end(body),
            Self::Asking(_) | Self::Releasing(_) | Self::Over => body.end(),
        }
    }
}

/// The lock and the scope of a running body, and a future that completes on a loss of the lock.
struct Inside {
    lease: Arc<Lease>,
    scope: LockScope,
    /// Completes on a loss of the lock. This future is created at the first pending poll of a body that a loss cancels.
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

    /// Polls `body`, or drops it if the lock is lost and a loss cancels the body. When this returns `Ready`, the body
    /// has been dropped.
    fn poll(&mut self, body: &mut dyn AnyBody, cx: &mut Context<'_>) -> Poll<Result<()>> {
        // Check the loss before every poll, because the process may have been stopped for longer than the lease since
        // the last poll.
        if self.cancels
            && let Some(reason) = self.lease.loss()
        {
            return Poll::Ready(self.cancel(body, reason));
        }
        // The result is also `Lost` if the lock was lost before the body ended, because another owner may have held the
        // lock meanwhile.
        if self.within(|| body.poll(cx)).is_ready() {
            self.end(body);
            // A lock that the body released early is not lost.
            return Poll::Ready(self.lease.check_loss());
        }
        if !self.cancels {
            return Poll::Pending;
        }
        let lease = &self.lease;
        // The body may never wake this task again. With this future, a loss wakes the task.
        let lost = self.lost.get_or_insert_with(|| {
            let lease = Arc::clone(lease);
            Box::pin(async move { lease.lost().await })
        });
        let reason = ready!(lost.as_mut().poll(cx));
        Poll::Ready(self.cancel(body, reason))
    }

    fn cancel(&self, body: &mut dyn AnyBody, reason: LossReason) -> Result<()> {
        self.end(body);
        Err(self.lease.lost_error(reason))
    }

    /// Drops the future of the body, inside the span and the scope of its lock.
    fn end(&self, body: &mut dyn AnyBody) {
        let _entered = self.lease.span.enter();
        // Drop the body as part of a future, which does not panic. On a thread that is ending, the task-locals may be
        // gone, and `within` would panic.
        drop(self.scope.clone().enter(Ending(body)));
    }

    fn within<R>(&self, act: impl FnOnce() -> R) -> R {
        let _entered = self.lease.span.enter();
        self.scope.within(act)
    }
}

/// A future that ends the body when it is dropped. The drop happens within the scope of the body.
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
