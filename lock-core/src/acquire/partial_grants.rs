//! Keeps the grants that a request for several keys has gathered, one for each key.

use std::convert::Infallible;
use std::time::Duration;

use crate::clock::Moment;
use crate::engine::Engine;
use crate::guard::Hold;
use crate::lease::Lease;

/// The pause after a failed renewal.
const AFTER_FAILURE: Duration = Duration::from_millis(25);

/// Returns when the next renewal of a lease is due.
fn renewal_of(lease: &Lease) -> Moment {
    let confirmed = lease.confirmed();
    confirmed.plus(lease.deadline().since(confirmed) / 3)
}

/// The single grants of a request for several keys, one for each key. Dropping this value releases them.
#[derive(Default)]
pub(super) struct PartialGrants(Vec<Hold>);

impl PartialGrants {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, hold: Hold) {
        self.0.push(hold);
    }

    /// Renews each grant when a third of its lease is over. Never completes. The request itself polls this future, so a
    /// request that is no longer polled does not keep its keys.
    pub(super) async fn keep(&self, engine: &Engine, ttl: Duration) -> Infallible {
        let mut pause = Duration::ZERO;
        loop {
            let now = engine.clock.now();
            // Lost grants are skipped, because the request for all keys discovers the loss.
            let live = || self.0.iter().map(|hold| &**hold.lease()).filter(|lease| lease.check().is_ok());
            let Some(wait) = live().map(|lease| renewal_of(lease).remaining(now)).min() else {
                return std::future::pending().await;
            };
            tokio::time::sleep(wait.max(pause)).await;
            let now = engine.clock.now();
            let due: Vec<&Lease> = live().filter(|lease| renewal_of(lease).is_past(now)).collect();
            pause = if Lease::renew_together(&due, ttl).await { Duration::ZERO } else { AFTER_FAILURE };
        }
    }

    /// Releases all grants.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Ends the single grants without a release. One grant for all keys has replaced them.
    pub(super) fn supersede(&mut self) {
        self.0.drain(..).for_each(Hold::supersede);
    }
}
