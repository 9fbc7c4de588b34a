//! Running a body under a guard: dropped when the lock is lost, and always before the lock is given back.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tracing::Instrument;

use crate::error::{LockError, Result};
use crate::guard::LockGuard;
use crate::request::OnLost;
use crate::scope::LockScope;

/// How long a caller waits for its release to be answered; then the background goes on with it.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

/// Runs `body` under `guard`, then gives it back.
pub(crate) async fn under<F: Future>(
    guard: LockGuard,
    on_lost: OnLost,
    body: Pin<Box<F>>,
) -> Result<F::Output> {
    let outcome = inside(&guard, on_lost, body).await;
    if outcome.is_ok() {
        give_back(guard).await;
    }
    outcome
}

/// Runs `body` under `guard`, which goes on holding.
pub(crate) async fn inside<F: Future>(
    guard: &LockGuard,
    on_lost: OnLost,
    body: Pin<Box<F>>,
) -> Result<F::Output> {
    let hold = guard.hold();
    let finished = {
        let scope = LockScope::current().with_hold(hold);
        let mut body = pin!(scope.enter(body).instrument(hold.span.clone()));
        let mut lost = pin!(hold.lost());
        poll_fn(|cx| {
            if on_lost == OnLost::Cancel {
                // The clock is read before every poll: after a pause of the whole process the body must not run on.
                if let Some(reason) = hold.loss() {
                    return Poll::Ready(Err(reason));
                }
            }
            match body.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(Ok(output)),
                Poll::Pending if on_lost == OnLost::Cancel => lost.as_mut().poll(cx).map(Err),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
        // The body is dropped here, before the guard.
    };
    match finished {
        Ok(output) => guard.check().map(|()| output),
        Err(reason) => Err(LockError::lost(&hold.claim.key, reason)),
    }
}

/// Waits for the release, but not for long, and never masks the body's result.
async fn give_back(guard: LockGuard) {
    let key = guard.hold().claim.key.clone();
    match tokio::time::timeout(RELEASE_PATIENCE, guard.release()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) if error.is_lost() => {}
        Ok(Err(error)) => {
            tracing::warn!(lock.key = %key, %error, "release failed; it goes on in the background")
        }
        Err(_) => tracing::warn!(lock.key = %key, "release not answered yet; it goes on in the background"),
    }
}
