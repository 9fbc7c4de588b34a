//! Shuts a manager down in good order.
//!
//! A shutdown waits for pending requests as well as guards, and refuses a grant that arrives after the shutdown began.
//! Otherwise a body could start after the shutdown has reported that all locks are released, or a key could stay locked
//! for its ttl after every deployment.

use std::time::Duration;

use super::manager::LockManager;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::LossReason;
use crate::sync::survives;

impl LockManager {
    /// Shuts the manager down in good order. From now on, new and waiting requests fail with
    /// [`ShuttingDown`](LockErrorKind::ShuttingDown). The shutdown waits up to `grace` until guards are dropped and
    /// releases are answered. Then it marks the remaining locks as lost, releases them, and closes the connections.
    ///
    /// After `grace`, the shutdown waits for the answers to the last releases. If locks were still held at the end of
    /// `grace`, this takes up to a second. Otherwise it takes up to a tenth of a second, or until a second has passed
    /// since the start of the shutdown, whichever is later. If the store does not answer, closing the connections takes
    /// up to a second more.
    ///
    /// Call this after the server has stopped accepting work.
    ///
    /// If the future is dropped, the manager stays closed to new requests. Another call continues the shutdown. The
    /// report of that call does not name the locks that the dropped call revoked.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let engine = self.engine();
        engine.close();
        match engine.cleanup.inside(self.wind_down(grace)).await {
            Ok(report) => report,
            // The call comes from outside of tokio, and the process cannot start a thread. Without a runtime, nothing
            // can wait.
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
        // Releases need a runtime, and the runtimes that acquired the locks may have ended.
        let _ = self.hub().renewers.here();
        // A hand-off has no lease until its waiter is polled, so the wait below would not include the hand-off.
        engine.local_queue.reclaim(Duration::ZERO);
        engine.local_queue.end_all_lingering();
        let _ = tokio::time::timeout(grace, engine.idle()).await;
        engine.local_queue.reclaim(Duration::ZERO);
        let mut report = ShutdownReport::default();
        self.revoke_held(&mut report);
        if engine.is_busy() {
            let _ = tokio::time::timeout(last(grace, &report), engine.settled()).await;
        }
        // This revokes again, because there may be more leases now: a grant may have arrived, or the renewer was
        // checking a lease during the first call.
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
    /// Revokes and releases the locks that are still held, and adds them to the report. Returns whether there were any.
    fn revoke_held(&self, report: &mut ShutdownReport) -> bool {
        let mut any = false;
        for lease in self.hub().leases() {
            // The lease may have expired unnoticed, because the runtime of its renewer has ended.
            let ran_out = lease.deadline().is_past(lease.now());
            let reason = if ran_out { LossReason::Expired } else { LossReason::ShutDown };
            // If the log subscriber panics at one lock, that lock and the others must still be released.
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

/// How long a shutdown waits for the releases of the locks that it revoked.
const LAST_RELEASES: Duration = Duration::from_secs(1);

/// The extra time for releases that start at the end of the grace period. A healthy store answers well within this
/// time.
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

/// The locks and requests that a [`shutdown`](LockManager::shutdown) could not end in good order. The report is empty
/// if all of them ended in good order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The keys that were still held at the end of the grace period. Their locks are lost.
    pub revoked: Vec<String>,
    /// The number of requests and releases that the store did not answer. If such a request or release left a key
    /// locked, the key becomes free after its ttl.
    pub unanswered: usize,
}
