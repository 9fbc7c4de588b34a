//! Waiting for what the code under test is about to do.

use std::time::Duration;

/// How long a test waits for what it expects to happen.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it looks while everybody else has a turn, before time may go on.
const LOOKS: usize = 100;
/// By how much time goes on then.
const PAUSE: Duration = Duration::from_millis(10);

/// Completes once `happened`; `false` when that took too long.
pub(super) async fn until(happened: impl Fn() -> bool) -> bool {
    let looking = async {
        // On a paused clock, time goes on only when everybody sleeps: not before everybody had a turn.
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
