//! Checks the start times of holds, in stores whose renewals write them.

use std::time::Duration;

use lock_core::{LockManager, LockRequest};

use crate::{PATIENCE, wait_until};

/// The shortest time for which the other manager waits.
const WAITED: Duration = Duration::from_millis(700);

/// Makes `other` wait for a lock of each kind that `locks` holds. Checks that the lock, once renewed, shows the time of
/// its grant, and not the time of its request.
///
/// # Panics
/// When the time is never shown, or is the time of the request.
pub async fn is_held_since_its_grant(locks: &LockManager, other: &LockManager, ttl: Duration) {
    let requests: [(&str, fn(&LockManager) -> LockRequest); 4] = [
        ("lock", |locks| locks.lock("lock")),
        ("write", |locks| locks.write("write")),
        ("fair", |locks| locks.fair("fair")),
        ("permit", |locks| locks.semaphore("permit", 1)),
    ];
    for (key, request) in requests {
        let request = |locks: &LockManager| request(locks).ttl(ttl).wait(PATIENCE);
        let first = request(locks).acquire().await.expect("it is free");
        let waiting = tokio::spawn(request(other).acquire());
        wait_until("the other waits", PATIENCE, async || {
            locks.inspect(key).await.expect("an answer").is_some_and(|lock| lock.waiting == 1)
        })
        .await;
        tokio::time::sleep(WAITED).await;
        first.release().await.expect("an answer");
        let guard = waiting.await.expect("no panic").expect("its turn comes");
        let waited = shown(locks, key).await;
        assert!(waited >= WAITED, "{key}: it is shown since {waited:?} after its request");
        if key == "write" {
            let reader = guard.downgrade().await.expect("it holds");
            assert_eq!(shown(locks, key).await, waited, "a reader holds since the same time");
            reader.release().await.expect("an answer");
        } else {
            guard.release().await.expect("an answer");
        }
    }
    // This reader waits for a writer.
    let writer = locks.write("read").ttl(ttl).acquire().await.expect("it is free");
    let reading = other.read("read").ttl(ttl).wait(PATIENCE).acquire();
    let (_, reader) = tokio::join!(
        async {
            tokio::time::sleep(WAITED).await;
            writer.release().await
        },
        reading
    );
    let waited = shown(locks, "read").await;
    assert!(waited >= WAITED / 2, "it is shown since {waited:?} after its request");
    drop(reader);
}

/// Waits until the store shows the start of the hold, and returns how long after the request it is.
async fn shown(locks: &LockManager, key: &str) -> Duration {
    let mut shown = None;
    wait_until("the time of the grant is shown", PATIENCE, async || {
        let lock = locks.inspect(key).await.expect("an answer").expect("it is held");
        let holder = &lock.holders[0];
        let asked = holder.record.as_ref().expect("it is ours").since_epoch();
        shown = holder.held_since.map(|since| since.saturating_sub(asked));
        shown.is_some()
    })
    .await;
    shown.unwrap_or_default()
}
