//! Carries out a plan, and records the outcome.

use tracing::{Instrument, Span};

use super::plan::Plan;
use super::recorder::AcquireRecorder;
use super::run::Acquire;
use super::spans::acquire_span;
use crate::backend::BoxFuture;
use crate::clock::Moment;
use crate::error::Result;
use crate::guard::{Hold, LockGuard};

/// Acquires the lock of the plan. If `plan` is an error, returns this error.
#[allow(
    clippy::manual_async_fn,
    reason = "the future of an async function has room for an argument twice, and is moved with both"
)]
pub(crate) fn acquire(mut plan: Result<Plan>) -> impl Future<Output = Result<LockGuard>> + Send {
    async move {
        let hold = match plan {
            Ok(ref mut plan) => {
                let span = acquire_span(plan);
                observed(plan, &span).await.map_err(|error| error.or_key(&plan.key))?
            }
            Err(error) => return Err(error),
        };
        // The plan is no longer needed, so the hub is moved out of it.
        Ok(LockGuard::new(hold, plan?.hub))
    }
}

/// Acquires the lock, and records the outcome. If the task enters a lock that it already holds, nothing is recorded.
async fn observed(plan: &mut Plan, span: &Span) -> Result<Hold> {
    let started = plan.engine().clock.now();
    let refused = match plan.entered() {
        Ok(Some(hold)) => return Ok(hold),
        Ok(None) => None,
        Err(error) => Some(error),
    };
    let recorder = AcquireRecorder::begin(plan, span, started);
    let outcome = match refused {
        None => within(span, looping(plan, started, span)).await,
        Some(error) => Err(error),
    };
    let start = span.in_scope(|| recorder.finish(&outcome));
    if let Ok(hold) = &outcome {
        hold.lease().open_record(plan.template.take(), start);
    }
    outcome
}

/// Wraps the future in `span`, if a subscriber is interested in the span.
fn within<'a, T: 'a>(span: &Span, future: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
    if span.is_none() { future } else { Box::pin(future.instrument(span.clone())) }
}

/// Runs the loop. The future is boxed. Otherwise every future that awaits this one, up to the task, would contain the
/// state of the loop, and would be moved with it.
fn looping<'a>(plan: &'a Plan, started: Moment, span: &'a Span) -> BoxFuture<'a, Result<Hold>> {
    Box::pin(async move {
        // A shutdown waits until no acquisition is counted, and then for rollbacks. `_counted` is dropped after
        // `acquire`, so the rollback of the claim has begun by then.
        let _counted = plan.engine().begin_acquiring();
        let mut acquire = Acquire::new(plan, started, plan.claim());
        let outcome = acquire.run().await;
        span.record("lock.attempts", acquire.tries.count);
        outcome
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;
    use crate::backend::memory::Memory;
    use crate::backend::{Ask, Attempt, Backend, Capability, Claim, FencingToken, Released, Renew, Renewal};
    use crate::manager::LockManager;

    /// A log subscriber that panics at the span of a grant if `panics` is set.
    struct Log {
        panics: bool,
    }

    impl tracing::Subscriber for Log {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            assert!(!self.panics || span.metadata().name() != "lock.hold", "a full disk");
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_grant_goes_back_where_the_log_panics_before_there_is_a_guard() {
        let locks = LockManager::in_memory();
        let poll_in = |log| {
            let mut acquire = pin!(locks.lock("k").acquire());
            let poll = || acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            catch_unwind(AssertUnwindSafe(|| tracing::subscriber::with_default(log, poll)))
        };
        // With a second subscriber, the span stays enabled. With only one, a test in another thread that reaches the
        // span first would disable the span for all threads.
        let _second = tracing::Dispatch::new(Log { panics: false });
        assert!(poll_in(Log { panics: false }).is_ok_and(|polled| polled.is_ready()));
        let polled = poll_in(Log { panics: true });
        assert!(polled.is_err(), "the log was asked");
        let next = locks.lock("k").try_acquire().await.expect("an answer");
        assert!(next.is_some(), "the key is still held");
    }

    /// A store in this process that counts its requests.
    #[derive(Debug, Default)]
    struct Counts {
        memory: Memory,
        asked: Arc<AtomicUsize>,
    }

    impl Backend for Counts {
        fn capability(&self) -> Capability {
            self.memory.capability()
        }

        async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.memory.acquire(claim, ask).await
        }

        async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
            self.memory.renew(batch).await
        }

        async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
            self.memory.release(claim, keep_for).await
        }

        async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
            self.memory.fence(claim).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_does_not_wait_asks_once() {
        let store = Counts::default();
        let asked = Arc::clone(&store.asked);
        let locks = LockManager::builder(store).build().expect("a manager");
        let held = locks.lock("k").acquire().await.expect("it is free");
        assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
        assert!(locks.lock("k").try_acquire().await.expect("an answer").is_none());
        assert_eq!(asked.swap(0, Ordering::Relaxed), 1, "held, and nothing waits");
        held.release().await.expect("an answer");
    }
}
