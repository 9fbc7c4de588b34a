//! From request to guard: the one place that waits.
//!
//! [`Plan`] is the request with its defaults; [`acquire`](acquire()) goes round the loop until the store or another
//! holder of this process gives the key, or the strategy has had enough. [`InFlight`] gives back what a dropped loop may
//! have taken.

mod in_flight;
mod offer;
mod plan;
mod several;
mod steps;
mod wait;

pub(crate) use in_flight::InFlight;
pub(crate) use plan::Plan;

use tracing::Instrument;

use crate::error::Result;
use crate::guard::LockGuard;
use crate::observe;

/// Acquires as planned.
pub(crate) async fn acquire(plan: Box<Plan>) -> Result<LockGuard> {
    let span = observe::acquire_span(&plan);
    let key = plan.key.clone();
    async move {
        plan.engine.check_process()?;
        match plan.entered()? {
            Some(guard) => Ok(guard),
            None => steps::Acquire::new(&plan).run().await,
        }
    }
    .instrument(span)
    .await
    .map_err(|error| error.or_key(&key))
}
