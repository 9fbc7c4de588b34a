//! The orderly end of a manager.
//!
//! It counts pending requests, not only guards, and refuses a grant that arrives after it began. Otherwise a body could
//! start after the report says that all is released, or a key stay locked for its ttl at every deployment.

use std::time::Duration;

use super::manager::LockManager;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::LossReason;

impl LockManager {
    /// Ends the manager in good order: refuses new requests, wakes waiters with
    /// [`ShuttingDown`](LockErrorKind::ShuttingDown), waits up to `grace` for guards to go and releases to be answered,
    /// then tells what is left that it is lost, releases it by owner, and closes the connections.
    ///
    /// It may take longer than `grace` by as long as the last releases get to be answered: a second for those of locks that
    /// were held to its end. Where nothing was, a store that does not answer gets a tenth of a second more, and with a
    /// `grace` of less than a second that second in all.
    ///
    /// Call it after the server has stopped taking work.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the manager closed to new requests; calling again goes on.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let engine = self.engine();
        engine.close();
        // A turn that nobody polls for is no hold that could be waited for.
        engine.local_queue.reclaim(Duration::ZERO);
        let _ = tokio::time::timeout(grace, engine.idle()).await;
        engine.local_queue.reclaim(Duration::ZERO);
        let mut report = ShutdownReport::default();
        for lease in self.hub().leases() {
            if lease.lose(LossReason::ShutDown) {
                report.revoked.push(lease.claim.key.as_str().to_owned());
                lease.release_in_background();
            }
        }
        if engine.is_busy() {
            let _ = tokio::time::timeout(last(grace, &report), engine.settled()).await;
        }
        report.unanswered = engine.cleanup.pending() + engine.acquiring();
        engine.store.close().await;
        engine.observer.events.close();
        report
    }
}

/// How long a shutdown waits for the releases of what it took away to be answered.
const LAST_RELEASES: Duration = Duration::from_secs(1);

/// The same of a release that began with the last moment of the grace: a store that is well answers much sooner.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// How long a shutdown waits after its `grace`: what was not answered all that time is not worth another second.
fn last(grace: Duration, report: &ShutdownReport) -> Duration {
    if report.revoked.is_empty() {
        LAST_RELEASES.saturating_sub(grace).max(LAST_ANSWERS)
    } else {
        LAST_RELEASES
    }
}

/// What a [`shutdown`](LockManager::shutdown) could not end in good order. Empty is good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Keys that were still held when the grace was over; their holders were told that they are lost.
    pub revoked: Vec<String>,
    /// Requests and releases that the store did not answer; if one of those keys is taken, it frees itself when its ttl
    /// is over.
    pub unanswered: usize,
}
