//! From a plan to its outcome: the first question, or else the loop, and the record of both.

use tracing::{Instrument, Span};

use super::first::{self, First};
use super::plan::Plan;
use super::recorder::AcquireRecorder;
use super::run::Acquire;
use super::spans::acquire_span;
use crate::clock::Moment;
use crate::error::Result;
use crate::guard::LockGuard;
use crate::pending::PendingClaim;

/// Acquires what is planned.
pub(crate) async fn acquire(plan: &mut Plan) -> Result<LockGuard> {
    let span = acquire_span(plan);
    observed(plan, &span).await.map_err(|error| error.or_key(&plan.key))
}

/// Acquires, and records the outcome. Entering a lock again is not recorded.
async fn observed(plan: &mut Plan, span: &Span) -> Result<LockGuard> {
    let started = plan.engine().clock.now();
    plan.engine().check_process(started)?;
    let entered = plan.entered();
    if let Ok(Some(guard)) = entered {
        return Ok(guard);
    }
    let recorder = AcquireRecorder::begin(plan, span, started);
    let outcome = match entered {
        Ok(_) => by_question(plan, span, started).await,
        Err(error) => Err(error),
    };
    let start = span.in_scope(|| recorder.finish(&outcome));
    if let Ok(guard) = &outcome {
        guard.lease().open_record(plan.template.take(), start);
    }
    outcome
}

/// Acquires with one question, or else with the loop.
async fn by_question(plan: &Plan, span: &Span, started: Moment) -> Result<LockGuard> {
    // A grant that lingers is taken, or given back, before the store is asked, and one that will linger is expected.
    let lingers =
        plan.options.linger.is_some() || plan.keys().any(|key| plan.engine().local_queue.lingers(key));
    let first = match if lingers { None } else { plan.first_question() } {
        None => First::NotAsked,
        Some(ask) => match span.in_scope(|| first::at_once(plan, ask, started))? {
            Some(first) => first,
            // Boxed, like the loop, because every future between this one and the task would hold its state, and would
            // be moved with it.
            None => Box::pin(first::ask_first(plan, ask, started)).instrument(span.clone()).await?,
        },
    };
    let (acquire, answer) = match first {
        First::Granted(guard) => {
            span.record("lock.attempts", 1);
            return Ok(guard);
        }
        First::Answered(answered) => Acquire::after(plan, started, span, *answered),
        First::NotAsked => {
            let claim = PendingClaim::new(&plan.engine().cleanup, plan.claim(started));
            (Acquire::new(plan, started, Some(span), claim), None)
        }
    };
    Box::pin(acquire.run(answer)).instrument(span.clone()).await
}
