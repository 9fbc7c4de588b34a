//! From a plan to its outcome: the first question, or else the loop, and the record of both.

use std::time::Duration;

use tracing::{Instrument, Span};

use super::first::{self, Answered, Begin, First};
use super::lazy_claim::LazyClaim;
use super::plan::Plan;
use super::recorder::AcquireRecorder;
use super::run::Acquire;
use super::spans::acquire_span;
use crate::backend::{Ask, BoxFuture};
use crate::clock::Moment;
use crate::error::Result;
use crate::guard::{Hold, LockGuard};

/// Carries out the plan, unless planning has failed.
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
        // The span is taken out of the plan, which ends here.
        Ok(LockGuard::new(hold, plan?.hub))
    }
}

/// Acquires, and records the outcome. Entering a lock again is not recorded.
async fn observed(plan: &mut Plan, span: &Span) -> Result<Hold> {
    let started = plan.engine().clock.now();
    let refused = match plan.entered() {
        Ok(Some(hold)) => return Ok(hold),
        Ok(None) => None,
        Err(error) => Some(error),
    };
    let recorder = AcquireRecorder::begin(plan, span, started);
    let outcome = match refused {
        None => by_question(plan, span, started).await,
        Some(error) => Err(error),
    };
    let start = span.in_scope(|| recorder.finish(&outcome));
    if let Ok(hold) = &outcome {
        hold.lease().open_record(plan.template.take(), start);
    }
    outcome
}

/// Acquires with one question, or else with the loop.
async fn by_question(plan: &Plan, span: &Span, started: Moment) -> Result<Hold> {
    // A grant that lingers is taken, or given back, before the store is asked, and one that will linger is expected.
    let lingers =
        plan.options.linger.is_some() || plan.keys().any(|key| plan.engine().local_queue.lingers(key));
    let first = if lingers || !plan.asks_first() {
        First::NotAsked
    } else {
        match plan.begin() {
            Begin::Wait(pause) => First::Busy(pause),
            Begin::Ask(ask) => match span.in_scope(|| first::at_once(plan, ask, started))? {
                Some(first) => first,
                None => within(span, asking(plan, ask, started)).await?,
            },
        }
    };
    let looping = match first {
        First::Granted(hold) => {
            span.record("lock.attempts", 1);
            return Ok(hold);
        }
        First::Answered(answered) => after(plan, started, span, *answered),
        First::NotAsked => looping(plan, started, span, None),
        First::Busy(pause) => looping(plan, started, span, Some(pause)),
    };
    within(span, looping).await
}

/// Returns a future that runs within `span`, if the span has a subscriber.
fn within<'a, T: 'a>(span: &Span, future: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
    if span.is_none() { future } else { Box::pin(future.instrument(span.clone())) }
}

// Boxed, because every future between these and the task would hold their state, and would be moved with it. In functions
// of their own, because a future has room for whatever is moved within it.

/// Asks the first question.
fn asking(plan: &Plan, ask: Ask, started: Moment) -> BoxFuture<'_, Result<First<'_>>> {
    Box::pin(first::ask_first(plan, ask, started))
}

/// Runs the loop from the start: with the strategy's first pause, or else with a question.
fn looping<'a>(
    plan: &'a Plan,
    started: Moment,
    span: &'a Span,
    first_pause: Option<Duration>,
) -> BoxFuture<'a, Result<Hold>> {
    Box::pin(async move {
        // Boxed on its own: an allocator serves two small ones faster than a large one.
        let mut acquire = Box::new(Acquire::new(plan, started, Some(span), LazyClaim::new(plan, started)));
        acquire.first_pause = first_pause;
        acquire.run(None).await
    })
}

/// Runs the loop from the answer to the first question on.
fn after<'a>(
    plan: &'a Plan,
    started: Moment,
    span: &'a Span,
    answered: Answered<'a>,
) -> BoxFuture<'a, Result<Hold>> {
    Box::pin(async move {
        let (mut acquire, answer) = Acquire::after(plan, started, span, answered);
        acquire.run(answer).await
    })
}
