//! The orderly end of a manager.
//!
//! A shutdown counts pending requests, not only guards, and refuses a grant that arrives after it began. Otherwise a
//! body could start after the report says that all is released, or a key stay locked for its ttl at every deployment.

use std::time::Duration;

use super::manager::LockManager;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::LossReason;
use crate::sync::survives;

impl LockManager {
    /// Shuts the manager down in good order. It refuses new requests, wakes waiters with
    /// [`ShuttingDown`](LockErrorKind::ShuttingDown), and waits up to `grace` for guards to be dropped and for releases
    /// to be answered. Then it marks the remaining locks as lost, releases them by owner, and closes the connections.
    ///
    /// After `grace`, it waits for the answers to the last releases: for up to a second if locks were held to the end
    /// of `grace`. Otherwise it waits for a tenth of a second more, or until a second has passed in all, if that is
    /// later. Closing the connections takes up to a second more if the store does not answer.
    ///
    /// Call it after the server has stopped accepting work.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the manager closed to new requests. Calling it again continues; the second report
    /// does not name the locks that the dropped call took away.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let engine = self.engine();
        engine.close();
        match engine.cleanup.inside(self.wind_down(grace)).await {
            Ok(report) => report,
            // Outside of tokio, in a process that cannot start a thread, there is no runtime to wait with.
            Err(_) => {
                let mut report = ShutdownReport::default();
                self.revoke_held(&mut report);
                report.unanswered = engine.cleanup.pending() + engine.acquiring();
                report
            }
        }
    }

    /// Ends requests, locks and releases, within a runtime.
    async fn wind_down(&self, grace: Duration) -> ShutdownReport {
        let engine = self.engine();
        // The runtimes that took the locks may have ended, and releases need one.
        let _ = self.hub().renewers.here();
        // A hand-off whose waiter is not polled is no lease that could be waited for.
        engine.local_queue.reclaim(Duration::ZERO);
        engine.local_queue.end_all_lingering();
        let _ = tokio::time::timeout(grace, engine.idle()).await;
        engine.local_queue.reclaim(Duration::ZERO);
        let mut report = ShutdownReport::default();
        self.revoke_held(&mut report);
        if engine.is_busy() {
            let _ = tokio::time::timeout(last(grace, &report), engine.settled()).await;
        }
        // This is repeated: a grant that was on its way has a lease now, and so has one that the renewer was checking.
        if self.revoke_held(&mut report) {
            let _ = tokio::time::timeout(LAST_ANSWERS, engine.settled()).await;
        }
        report.unanswered = engine.cleanup.pending() + engine.acquiring();
        engine.store.close().await;
        engine.observer.events.close();
        report
    }
}

impl LockManager {
    /// Takes away and releases the locks that are still held, and reports them. Returns whether there were any.
    fn revoke_held(&self, report: &mut ShutdownReport) -> bool {
        let mut any = false;
        for lease in self.hub().leases() {
            // The lease may have expired unnoticed, because the runtime of its renewer has ended.
            let ran_out = lease.deadline().is_past(lease.now());
            let reason = if ran_out { LossReason::Expired } else { LossReason::ShutDown };
            // A log that panics at one lock must not keep it, or the others, from being released.
            if survives(|| lease.lose(reason)).unwrap_or(true) {
                if !ran_out {
                    report.revoked.extend(lease.claim().keys().map(|key| key.as_str().to_owned()));
                }
                lease.release_in_background(None);
                any = true;
            }
        }
        any
    }
}

/// How long a shutdown waits for the releases of the locks that it took away.
const LAST_RELEASES: Duration = Duration::from_secs(1);

/// Extra time for releases started at the end of the grace period. A healthy store answers well within it.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// Returns how long a shutdown waits after its `grace`. If no lock was revoked, the `grace` counts towards
/// [`LAST_RELEASES`].
fn last(grace: Duration, report: &ShutdownReport) -> Duration {
    if report.revoked.is_empty() {
        LAST_RELEASES.saturating_sub(grace).max(LAST_ANSWERS)
    } else {
        LAST_RELEASES
    }
}

/// The locks and requests that a [`shutdown`](LockManager::shutdown) could not end in good order. An empty report is a
/// good one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Keys that were still held when the grace period was over. Their locks are lost.
    pub revoked: Vec<String>,
    /// The number of requests and releases that the store did not answer. If one of their keys is locked, it is free
    /// when its ttl is over.
    pub unanswered: usize,
}
