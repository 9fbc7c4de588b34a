//! From request to guard: the one place that waits.
//!
//! [`Plan`] is the request with its defaults; [`acquire`](acquire()) goes round the loop until the store or another
//! holder of this process gives the key, or the strategy has had enough. [`InFlight`](crate::in_flight::InFlight) gives back
//! what a dropped loop may have taken.

mod offer;
mod plan;
mod several;
mod steps;
mod wait;

pub(crate) use plan::Plan;

use tracing::{Instrument, Span};

use crate::error::Result;
use crate::guard::LockGuard;
use crate::observe::{self, Asked};

/// Acquires as planned.
pub(crate) async fn acquire(plan: Box<Plan>) -> Result<LockGuard> {
    let span = observe::acquire_span(&plan);
    let key = plan.key.clone();
    observed(plan, span.clone()).instrument(span).await.map_err(|error| error.or_key(&key))
}

/// Acquires, and tells what came of it. To enter a lock again is nothing to tell.
async fn observed(mut plan: Box<Plan>, span: Span) -> Result<LockGuard> {
    plan.engine.check_process()?;
    let entered = plan.entered();
    if let Ok(Some(guard)) = entered {
        return Ok(guard);
    }
    let started = plan.engine.clock.now();
    let asked = Asked::new(&plan, &span, started);
    let outcome = match entered {
        Ok(_) => steps::Acquire::new(&plan, started, Some(&span)).run().await,
        Err(error) => Err(error),
    };
    let begins = asked.ended(&outcome);
    if let Ok(guard) = &outcome {
        guard.hold().begins(plan.template.take(), begins);
    }
    outcome
}
