//! Releases a lock before the HTTP answer is complete.

use std::time::Duration;

use lock_core::LockGuard;

/// The longest time that an answer waits for the release. After this time, the release continues in the background.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Releases the lock. The wait is short, because the HTTP answer is the same whether or not the release succeeds. With
/// [`Release::Background`](lock_core::Release::Background), there is no wait.
pub(super) async fn release(guard: LockGuard) {
    guard.release_within(RELEASE_TIMEOUT).await;
}
