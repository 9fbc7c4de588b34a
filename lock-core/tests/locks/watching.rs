//! Tests waiters that watch a key: how often they create a watch, and the cost of a lost notification.

use std::time::Duration;

use lock_core::backend::{Attempt, Held};
use lock_core::{Kind, LockManager, LockRequest, strategy};
use tokio::time::Instant;

use crate::millis;
use crate::scripted::{Every, Scripted};

const HOUR: Duration = Duration::from_secs(3_600);

/// The time for which a waiter relies on the notifications of a store in this process.
const FLOOR: Duration = Duration::from_secs(60);

/// Waiters of both kinds rely on a watch: the first outside of a local queue, the second as the head of a local queue.
const WAYS: [Kind; 2] = [Kind::Fair, Kind::Reentrant];

/// Returns a waiter for a key that another manager holds, and the guard of that manager. The waiter has already sent
/// its request.
async fn waiting(
    kind: Kind,
    pause: Duration,
) -> (
    LockManager,
    Scripted,
    lock_core::LockGuard,
    tokio::task::JoinHandle<lock_core::Result<lock_core::LockGuard>>,
) {
    let (locks, store) = Scripted::manager(|_| {});
    let guard = store.stranger().request("k", kind).acquire().await.unwrap();
    store.script().loses_changes = true;
    let waiting = tokio::spawn(locks.request("k", kind).strategy(Every(pause, HOUR)).acquire());
    tokio::time::sleep(millis(5)).await;
    assert_eq!(store.asked(&crate::scripted::Asked::Wait), 1, "{kind}: it watches");
    (locks, store, guard, waiting)
}

#[tokio::test(start_paused = true)]
async fn a_lost_notification_costs_a_delay_and_not_the_wait() {
    for (number, kind) in WAYS.into_iter().enumerate() {
        let (_locks, _store, guard, waiting) = waiting(kind, HOUR).await;
        let freed = Instant::now();
        guard.release().await.unwrap();
        let guard = tokio::time::timeout(2 * FLOOR, waiting).await;
        let guard = guard.unwrap_or_else(|_| panic!("way {number} sleeps for ever")).unwrap().unwrap();
        assert!(freed.elapsed() <= FLOOR, "way {number}: {:?}", freed.elapsed());
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconnected_store_is_asked_by_every_waiter_at_once() {
    for (number, kind) in WAYS.into_iter().enumerate() {
        let (_locks, store, guard, waiting) = waiting(kind, HOUR).await;
        guard.release().await.unwrap();
        tokio::time::sleep(millis(1_000)).await;
        assert!(!waiting.is_finished(), "way {number}: the notification was lost");
        store.reconnect();
        let woken = Instant::now();
        let guard = tokio::time::timeout(2 * FLOOR, waiting).await;
        let guard = guard.unwrap_or_else(|_| panic!("way {number} was not woken")).unwrap().unwrap();
        assert_eq!(woken.elapsed(), Duration::ZERO, "way {number}");
        guard.release().await.unwrap();
    }
}

/// The strategy pauses 150 times during this test.
#[tokio::test(start_paused = true)]
async fn a_watch_is_made_once_and_kept_over_the_pauses_of_a_wait() {
    for (number, kind) in WAYS.into_iter().enumerate() {
        let (_locks, store, guard, waiting) = waiting(kind, millis(200)).await;
        tokio::time::sleep(FLOOR / 2).await;
        let (_, watches) = store.tries_and_waits();
        assert_eq!(watches, 1, "way {number}");
        drop(guard);
        waiting.abort();
    }
}

/// After [`FLOOR`], a waiter does not rely on its watch any more, because the watch may have missed its event.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_as_old_as_the_floor_is_made_anew() {
    for (number, kind) in WAYS.into_iter().enumerate() {
        let (_locks, store, guard, waiting) = waiting(kind, HOUR).await;
        tokio::time::sleep(FLOOR).await;
        let (_, watches) = store.tries_and_waits();
        assert_eq!(watches, 2, "way {number}");
        store.script().loses_changes = false;
        tokio::time::sleep(FLOOR).await;
        let freed = Instant::now();
        guard.release().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
        assert_eq!(freed.elapsed(), Duration::ZERO, "way {number}: the new watch has seen it");
    }
}

/// The store answers that this process holds the key, but not until when. This happens while a release is in flight.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_a_holder_that_nobody_knows_asks_again() {
    let (locks, store) = Scripted::manager(|_| {});
    let held = || Ok(Attempt::Held(Held { own: true, ..Held::default() }));
    store.script().acquire.extend([held(), held()]);
    store.script().loses_changes = true;
    let waiting = tokio::spawn(locks.lock("k").strategy(Every(HOUR, HOUR)).acquire());
    let guard = tokio::time::timeout(2 * FLOOR, waiting).await.expect("it sleeps for ever");
    drop(guard.unwrap().unwrap());
}

/// Before the waiter had an entry, its process held the key and the waiter watched the key. As soon as the waiter has
/// an entry, it must watch its own turn.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_gets_an_entry_watches_that() {
    let locks = LockManager::in_memory();
    let patient = |request: LockRequest| tokio::spawn(request.strategy(strategy::wait()).acquire());
    let first = locks.lock("k").acquire().await.unwrap();
    let next = patient(locks.lock("k"));
    tokio::time::sleep(millis(1)).await;
    let fair = patient(locks.fair("k"));
    // This is longer than a process keeps a grant that others want.
    tokio::time::sleep(millis(20)).await;
    first.release().await.unwrap();
    let fair = fair.await.unwrap().unwrap();
    tokio::time::sleep(millis(1)).await;
    let freed = Instant::now();
    fair.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    assert!(freed.elapsed() < millis(5), "{:?}", freed.elapsed());
}
