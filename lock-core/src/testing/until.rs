//! Waits for something that the code under test is about to do.

use std::time::Duration;

/// How long a test waits for something that it expects.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it checks, while all other tasks run, before it lets time advance.
const LOOKS: usize = 100;
/// The time by which the clock advances then.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `happened` returns true; returns false if that takes too long.
pub(super) async fn until(happened: impl Fn() -> bool) -> bool {
    let looking = async {
        // A paused clock advances only when every task sleeps, so let every task run first.
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
