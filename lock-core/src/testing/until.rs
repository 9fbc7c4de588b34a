//! Waits for an action of the code under test.

use std::time::Duration;

/// The longest time that a test waits for an expected action.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of checks before time advances. All other tasks can run between two checks.
const LOOKS: usize = 100;
/// The pause after these checks. A paused clock then advances by this time.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `happened` returns true. Returns false if this takes longer than [`PATIENCE`].
pub(super) async fn until(happened: impl Fn() -> bool) -> bool {
    let looking = async {
        // A paused clock advances only when every task sleeps. So every task first gets the chance to run.
        loop {
            for _ in 0..LOOKS {
                if happened() {
                    return;
                }
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.is_ok()
}
