//! Tests strategies that decide to wait only if they know the holder. A request for a lock in order of arrival begins
//! without an entry in the store's queue. The request gets an entry before it waits.

use std::borrow::Cow;
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::strategy::{Contention, Decision, Strategy};
use lock_core::{Kind, LockManager, strategy};
use tokio::time::Instant;

use crate::millis;
use crate::queue_store::QueueStore;

const LONG: Duration = Duration::from_secs(30);

/// A strategy that waits if the end of the holder's lease is known.
#[derive(Debug)]
struct ForKnownHolder;

impl Strategy for ForKnownHolder {
    fn decide(&self, contention: &Contention) -> Decision {
        contention.holder_remaining.map_or(Decision::Fail, |_| Decision::RetryAfter(LONG))
    }

    fn name(&self) -> Cow<'static, str> {
        "for_known_holder".into()
    }
}

/// Returns the ways of waiting in a queue: two managers of one store, and two kinds of locks. The second kind excludes
/// the first.
fn ways() -> [((LockManager, LockManager), (Kind, Kind)); 4] {
    let of_queue = || {
        let store = QueueStore::default();
        (store.manager(), store.manager())
    };
    let of_memory = || {
        let store = Memory::new();
        let manager = || LockManager::builder(store.clone()).build().unwrap();
        (manager(), manager())
    };
    [
        (of_queue(), (Kind::Fair, Kind::Fair)),
        (of_memory(), (Kind::Fair, Kind::Fair)),
        (of_memory(), (Kind::Read, Kind::Write)),
        (of_memory(), (Kind::Write, Kind::Write)),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_begins_to_wait_is_queued() {
    for ((one, other), (kind, excludes)) in ways() {
        let holder = other.request("k", excludes).acquire().await.unwrap();
        let first = tokio::spawn(one.request("k", kind).strategy(ForKnownHolder).acquire());
        tokio::time::sleep(millis(1)).await;
        let second = tokio::spawn(other.request("k", excludes).strategy(strategy::wait()).acquire());
        tokio::time::sleep(millis(1)).await;
        let freed = Instant::now();
        holder.release().await.unwrap();
        let first =
            tokio::time::timeout(LONG, first).await.unwrap_or_else(|_| panic!("{kind}: it was overtaken"));
        let first = first.unwrap().unwrap();
        assert!(freed.elapsed() < millis(50), "{kind}: {:?}", freed.elapsed());
        first.release().await.unwrap();
        second.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_stops_waiting_keeps_nobody_out() {
    for ((one, other), (kind, excludes)) in ways() {
        let holder = other.request("k", excludes).acquire().await.unwrap();
        let waiting = tokio::spawn(one.request("k", kind).strategy(ForKnownHolder).acquire());
        tokio::time::sleep(millis(1)).await;
        waiting.abort();
        let _ = waiting.await;
        let freed = Instant::now();
        holder.release().await.unwrap();
        other
            .request("k", excludes)
            .strategy(strategy::wait())
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        assert!(freed.elapsed() < millis(50), "{kind}: {:?}", freed.elapsed());
    }
}
