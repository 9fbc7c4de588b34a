//! The release that an answer waits for.

use std::time::Duration;

use lock_core::LockGuard;

/// How long an answer waits for its release; then the background goes on with it.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

/// Waits for the release, but not for long: the answer does not depend on it.
pub(super) async fn release(guard: LockGuard) {
    // What goes wrong the lock tells by itself, and the background goes on with it.
    let _ = tokio::time::timeout(RELEASE_PATIENCE, guard.release()).await;
}
