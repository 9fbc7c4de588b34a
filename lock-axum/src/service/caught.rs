//! Catches panics of the wrapped service, so that they resume only after the lock is released.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

pub(crate) type Panic = Box<dyn Any + Send>;

/// Runs `work`, and returns its panic as an error. The caller resumes the panic after the lock is released, because the
/// key must be free when the client gets its answer, even after a panic.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panic> {
    let mut work = pin!(work);
    // `AssertUnwindSafe` is correct, because `work` is not used after a panic.
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
