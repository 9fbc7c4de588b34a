//! Tests leases, outages, shutdowns, and dropped futures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::LockErrorKind;
use tokio::time::{Instant, sleep};

use super::store::{Fault, Store};
use super::{MINUTE, kind, settle, wait};
use crate::millis;

#[tokio::test(start_paused = true)]
async fn a_wait_keeps_the_latch_alive() {
    let store = Store::new();
    let (latch, other) = (store.latch(millis(900)), store.latch(millis(900)));
    other.set(1).await.unwrap();
    let waiting = wait(&latch);
    sleep(MINUTE).await;
    assert_eq!(other.count_down().await.unwrap(), 0);
    waiting.await.unwrap().unwrap();
    sleep(millis(900)).await;
    assert_eq!(other.count().await.unwrap(), None, "nobody waits any more");
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_told_that_the_lease_ran_out() {
    let store = Store::new();
    let latch = store.latch(millis(900));
    latch.set(1).await.unwrap();
    let waiting = wait(&latch);
    settle().await;
    store.outage(millis(500));
    sleep(millis(2_000)).await;
    assert!(!waiting.is_finished(), "the outage was shorter than the lease");
    store.outage(millis(1_500));
    let waited = tokio::time::timeout(MINUTE, waiting).await.expect("it is told");
    let error = waited.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.key()), (LockErrorKind::Lost, Some("l")));
    assert!(error.to_string().starts_with("latch was lost (key `l`): "), "{error}");
    assert!(error.to_string().contains("its lease ran out"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_survives_an_outage_that_its_lease_survives() {
    let store = Store::new();
    let hours = 60 * MINUTE;
    let (latch, other) = (store.latch(hours), store.latch(hours));
    other.set(1).await.unwrap();
    let waiting = wait(&latch);
    settle().await;
    store.outage(10 * MINUTE);
    sleep(9 * MINUTE).await;
    assert!(!waiting.is_finished());
    let asked = store.asked();
    sleep(millis(10_000)).await;
    let questions = store.asked() - asked;
    assert!((14..=16).contains(&questions), "{questions} in 10 s of an outage");
    sleep(MINUTE).await;
    other.count_down().await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_outage_begins_with_short_pauses() {
    let store = Store::new();
    let latch = store.latch(MINUTE);
    latch.set(1).await.unwrap();
    let start = Instant::now();
    let waiting = wait(&latch);
    settle().await;
    for _ in 0..2 {
        let before = store.asked();
        store.outage(millis(2_000));
        sleep(millis(10_000)).await;
        let times = &store.times(start)[before..];
        let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).take(4).collect();
        assert_eq!(pauses, [25, 50, 100, 200]);
    }
    waiting.abort();
}

struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn the_log_is_told_every_30_s_what_is_in_the_way() {
    let count = Arc::new(AtomicUsize::new(0));
    // `tracing` caches whether a call site is enabled. With a single subscriber, it consults only the thread that
    // reaches the call site first, so another test could switch these warnings off. With two subscribers, it consults
    // both.
    let _second = tracing::Dispatch::new(Warnings(Arc::default()));
    let _log = tracing::subscriber::set_default(Warnings(Arc::clone(&count)));
    let warnings = || count.swap(0, Ordering::SeqCst);
    let store = Store::new();
    let latch = store.latch(millis(70_000));
    latch.wait_within(millis(70_000)).await.unwrap_err();
    assert_eq!(warnings(), 2, "it is not set: after 30 s and 60 s");
    store.state().down = true;
    latch.wait_within(millis(70_000)).await.unwrap_err();
    assert_eq!(warnings(), 3, "an outage: at once, after 30 s and 60 s");
    latch.count_down().await.unwrap_err();
    assert_eq!(warnings(), 3);
    store.state().down = false;
    latch.set(1).await.unwrap();
    latch.wait_within(millis(70_000)).await.unwrap_err();
    assert_eq!(warnings(), 0, "waiting for others is no reason");
    let waiting = wait(&latch);
    for _ in 0..3 {
        store.outage(millis(1_000));
        sleep(millis(5_000)).await;
    }
    assert_eq!(warnings(), 1, "however often the store comes and goes");
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_wait_whose_limit_is_over_in_an_outage_says_so() {
    let store = Store::new();
    let latch = store.latch(MINUTE);
    latch.set(1).await.unwrap();
    store.state().down = true;
    let start = Instant::now();
    let error = latch.wait_within(millis(3_000)).await.unwrap_err();
    assert_eq!(start.elapsed(), millis(3_000));
    assert!(error.is_unavailable() && error.waited() == Some(millis(3_000)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_every_wait_and_every_retry() {
    let store = Store::new();
    let locks = store.manager();
    let latch = locks.latch("l").ttl(MINUTE);
    latch.set(1).await.unwrap();
    let waiting = wait(&latch);
    settle().await;
    store.state().down = true;
    let counting = {
        let latch = latch.clone();
        tokio::spawn(async move { latch.count_down().await })
    };
    sleep(millis(2_000)).await;
    let start = Instant::now();
    let report = locks.shutdown(MINUTE).await;
    assert_eq!(report.unanswered, 0);
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(kind(waiting.await.unwrap()), LockErrorKind::ShuttingDown);
    let error = counting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::ShuttingDown);
    assert!(std::error::Error::source(&error).is_some(), "why there were retries: {error:?}");
    assert_eq!(start.elapsed(), Duration::ZERO);
    let asked = store.asked();
    assert_eq!(kind(latch.set(1).await), LockErrorKind::ShuttingDown);
    assert_eq!(kind(latch.count_down().await), LockErrorKind::ShuttingDown);
    assert_eq!(kind(latch.count().await), LockErrorKind::ShuttingDown);
    assert_eq!(kind(latch.wait().await), LockErrorKind::ShuttingDown);
    assert_eq!(store.asked(), asked);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_the_end_of_the_store_cuts_off_is_no_failure_of_the_store() {
    let store = Store::new();
    let locks = store.manager();
    let waiting = wait(&locks.latch("l"));
    store.fails(Fault::Closed);
    settle().await;
    locks.shutdown(MINUTE).await;
    assert_eq!(kind(waiting.await.unwrap()), LockErrorKind::ShuttingDown);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_a_count_that_is_under_way() {
    let store = Store::new();
    let locks = store.manager();
    let latch = locks.latch("l");
    latch.set(1).await.unwrap();
    store.fails(Fault::Before);
    let counting = tokio::spawn(async move { latch.count_down().await });
    settle().await;
    let start = Instant::now();
    let report = locks.shutdown(millis(500)).await;
    assert!(start.elapsed() >= millis(500));
    assert_eq!(report.unanswered, 1);
    counting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_count_that_is_dropped_counts_once_at_most() {
    let store = Store::new();
    let latch = store.latch(MINUTE);
    latch.set(3).await.unwrap();
    for (fault, left) in [(Fault::Before, 3), (Fault::After, 2)] {
        store.fails(fault);
        tokio::time::timeout(millis(100), latch.count_down()).await.expect_err("it hangs");
        sleep(MINUTE / 2).await;
        assert_eq!(latch.count().await.unwrap(), Some(left), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_dropped_asks_no_more() {
    let store = Store::new();
    let latch = store.latch(millis(900));
    latch.set(1).await.unwrap();
    tokio::time::timeout(millis(1_000), latch.wait()).await.expect_err("nobody counts");
    let asked = store.asked();
    sleep(millis(2_000)).await;
    assert_eq!(store.asked(), asked);
    assert_eq!(latch.count().await.unwrap(), None, "and keeps nothing alive");
}
