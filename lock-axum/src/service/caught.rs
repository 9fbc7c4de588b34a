//! Panics of the wrapped service, which wait until the lock is released.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// The payload of a panic.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Runs `work`. Returns its panic, for the caller to resume once the lock is released: the answer to a handler that
/// panicked must find the key as free as any other answer.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panic> {
    let mut work = pin!(work);
    // No part of `work` is used after a panic.
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
