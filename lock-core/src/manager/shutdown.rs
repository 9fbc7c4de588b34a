//! Shuts down a manager: waits for its requests, guards and releases, and then revokes the remaining locks.
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
    /// Shuts down the manager. From now on, new and waiting requests fail with
    /// [`ShuttingDown`](LockErrorKind::ShuttingDown). The shutdown waits up to `grace` until guards are dropped and
    /// releases are answered. Then it marks the remaining locks as lost, releases them, and closes the connections.
    ///
    /// After `grace`, the shutdown waits for the answers to the last releases. If locks were still held at the end of
    /// `grace`, this takes up to a second. Otherwise this wait ends a second after the start of the shutdown, or a
    /// tenth of a second after `grace` if that is later, and earlier if all answers arrive. If the store does not
    /// answer, closing the connections takes up to a second more.
    ///
    /// Call this after the server has stopped accepting work.
    ///
    /// If the future is dropped, the manager stays closed to new requests. Another call continues the shutdown. The
    /// report of that call does not name the locks that the dropped call revoked.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let engine = self.engine();
        engine.close();
        match engine.inside(async { Ok(self.wind_down(grace).await) }).await {
            Ok(report) => report,
            // The caller is outside of tokio, and the process cannot start a thread. Without a runtime, the shutdown
            // cannot wait.
            Err(_) => {
                let mut report = ShutdownReport::default();
                self.revoke_held(&mut report);
                report.unanswered = engine.cleanup.pending() + engine.acquiring();
                report
            }
        }
    }

    /// Waits until requests, locks and releases have ended, and revokes the rest. Call this in a runtime.
    async fn wind_down(&self, grace: Duration) -> ShutdownReport {
        let engine = self.engine();
        // An embedded store runs background releases on the runtimes that acquired locks. These may have ended, so the
        // runtime of this call joins them.
        let _ = self.hub().renewers.here();
        // Take back the hand-offs whose waiter was not polled since. They have no lease, so `idle` would not wait for
        // them.
        engine.local_queue.reclaim(Duration::ZERO);
        engine.local_queue.end_all_lingering();
        let _ = tokio::time::timeout(grace, engine.idle()).await;
        engine.local_queue.reclaim(Duration::ZERO);
        let mut report = ShutdownReport::default();
        self.revoke_held(&mut report);
        if engine.is_busy() {
            let _ = tokio::time::timeout(last(grace, &report), engine.settled()).await;
        }
        // This revokes again, because there may be more leases now: a grant may have arrived, or the renewer had taken
        // a lease out of its schedule for a check during the first call.
        if self.revoke_held(&mut report) {
            let _ = tokio::time::timeout(LAST_ANSWERS, engine.settled()).await;
        }
        report.unanswered = engine.cleanup.pending() + engine.acquiring();
        engine.store.backend.close_dyn().await;
        engine.observer.events.close();
        report
    }
}

impl LockManager {
    /// Revokes and releases the locks that are still held, and adds those to the report whose lease has not expired.
    /// Returns whether any lock was held.
    fn revoke_held(&self, report: &mut ShutdownReport) -> bool {
        let mut any = false;
        for lease in self.hub().leases() {
            // The lease may have expired unnoticed, if the runtime of its renewer has ended.
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

/// Returns how long a shutdown waits for releases after its `grace`. If no lock was revoked, `grace` is subtracted from
/// [`LAST_RELEASES`], but at least [`LAST_ANSWERS`] remains.
fn last(grace: Duration, report: &ShutdownReport) -> Duration {
    if report.revoked.is_empty() {
        LAST_RELEASES.saturating_sub(grace).max(LAST_ANSWERS)
    } else {
        LAST_RELEASES
    }
}

/// The locks and requests that a [`shutdown`](LockManager::shutdown) could not end in good order. The report is empty
/// if there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The keys that were still held at the end of the grace period. Their locks are lost.
    pub revoked: Vec<String>,
    /// The number of requests and releases that the store did not answer. If such a request or release left a key
    /// locked, the key becomes free after its ttl.
    pub unanswered: usize,
}
