//! Tests of setting a latch, counting it down, and reading it.

use std::time::Duration;

use lock_core::{LockErrorKind, LockManager};
use tokio::time::{Instant, sleep};

use super::store::{Fault, Store};
use super::{MINUTE, kind};
use crate::millis;

#[tokio::test(start_paused = true)]
async fn a_latch_is_set_once() {
    let store = Store::new();
    let (one, other) = (store.latch(MINUTE), store.latch(MINUTE));
    assert!(one.set(3).await.unwrap());
    assert!(!other.set(5).await.unwrap(), "it is set already");
    assert!(!one.set(3).await.unwrap(), "a second call is a second setter");
    assert_eq!(other.count().await.unwrap(), Some(3));
}

#[tokio::test(start_paused = true)]
async fn it_counts_down_to_zero_and_no_further() {
    let store = Store::new();
    let (one, other) = (store.latch(MINUTE), store.latch(MINUTE));
    one.set(2).await.unwrap();
    assert_eq!(other.count_down().await.unwrap(), 1);
    assert_eq!(one.count_down().await.unwrap(), 0);
    assert_eq!(one.count_down().await.unwrap(), 0);
    assert_eq!(one.count().await.unwrap(), Some(0));
    assert!(!one.set(2).await.unwrap(), "it stays open");
    one.wait().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_has_the_namespace_of_its_manager() {
    let store = Store::new();
    let shop = LockManager::builder(store.clone()).namespace("shop").build().unwrap();
    shop.latch("l").set(1).await.unwrap();
    assert_eq!(store.manager().latch("l").count().await.unwrap(), None);
    assert_eq!(store.manager().latch("shop:l").count().await.unwrap(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_answer_was_lost_is_done_once() {
    let store = Store::new();
    let latch = store.latch(MINUTE);
    let start = Instant::now();
    store.fails(Fault::Answer);
    assert!(latch.set(3).await.unwrap(), "it was this call that set it");
    store.fails(Fault::Answer);
    store.fails(Fault::Answer);
    assert_eq!(latch.count_down().await.unwrap(), 2, "counted once in three tries");
    assert_eq!(latch.count_down().await.unwrap(), 1, "a second call counts a second time");
    let owners = store.owners();
    assert_eq!(owners[0], owners[1]);
    assert!(owners[2] == owners[3] && owners[3] == owners[4]);
    assert!(owners[0] != owners[2] && owners[4] != owners[5]);
    assert_eq!(store.times(start), [0, 25, 25, 50, 100, 100]);
}

#[tokio::test(start_paused = true)]
async fn a_step_is_retried_for_less_than_the_ttl() {
    let store = Store::new();
    let latch = store.latch(millis(5_000));
    store.state().down = true;
    let start = Instant::now();
    let error = latch.count_down().await.unwrap_err();
    assert!(error.is_unavailable() && error.is_temporary(), "{error}");
    assert_eq!(error.key(), Some("l"));
    assert_eq!(error.waited(), Some(millis(4_575)));
    assert_eq!(store.times(start), [0, 25, 75, 175, 375, 775, 1_575, 2_575, 3_575, 4_575]);
    let start = Instant::now();
    latch.clone().ttl(millis(20)).set(1).await.unwrap_err();
    assert!(start.elapsed() < millis(20) && store.asked() > 11, "a short ttl has its retries too");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_does_not_count_in_the_next_round() {
    let store = Store::new();
    let (latch, other) = (store.latch(MINUTE), store.latch(MINUTE));
    other.set(2).await.unwrap();
    store.fails(Fault::Answer);
    let counting = tokio::spawn(async move { latch.count_down().await });
    tokio::time::sleep(millis(1)).await;
    assert_eq!(other.count().await.unwrap(), Some(1), "it counted, and does not know");
    // The counting process is paused until the store has forgotten the latch. It continues when the latch is set again.
    let set_anew = async { assert!(other.set(2).await.unwrap(), "it was forgotten") };
    tokio::join!(tokio::time::advance(MINUTE), set_anew);
    let error = counting.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.waited() >= Some(MINUTE), "{error}");
    assert_eq!(other.count().await.unwrap(), Some(2), "of the next round nobody has counted");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_was_refused_for_good_is_not_retried() {
    let store = Store::new();
    let latch = store.latch(MINUTE);
    for _ in 0..4 {
        store.fails(Fault::Refused);
    }
    assert_eq!(kind(latch.set(1).await), LockErrorKind::Unavailable);
    assert_eq!(kind(latch.count_down().await), LockErrorKind::Unavailable);
    assert_eq!(kind(latch.count().await), LockErrorKind::Unavailable);
    assert_eq!(kind(latch.wait_within(MINUTE).await), LockErrorKind::Unavailable);
    assert_eq!(store.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_counted_on_a_latch_that_is_not_set() {
    let store = Store::new();
    let latch = store.latch(millis(1_000));
    assert_eq!(latch.count().await.unwrap(), None);
    let error = latch.count_down().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    assert!(error.to_string().contains("`set`"), "{error}");
    latch.set(2).await.unwrap();
    sleep(millis(999)).await;
    assert_eq!(latch.count().await.unwrap(), Some(2));
    sleep(millis(1)).await;
    assert_eq!(latch.count().await.unwrap(), None, "looking does not keep it");
    assert_eq!(kind(latch.count_down().await), LockErrorKind::InvalidRequest);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_refused_before_the_store_is_asked() {
    let store = Store::new();
    let latch = store.latch(MINUTE);
    assert_eq!(kind(latch.set(0).await), LockErrorKind::InvalidRequest);
    assert_eq!(kind(store.manager().latch("").wait_within(MINUTE).await), LockErrorKind::InvalidKey);
    let error = latch.clone().ttl(Duration::ZERO).set(1).await.unwrap_err();
    assert!(error.to_string().contains("ttl is 0:"), "{error}");
    for ttl in [0, 9, 24 * 60 * 60 * 1_000 + 1] {
        let latch = latch.clone().ttl(millis(ttl));
        assert_eq!(kind(latch.set(1).await), LockErrorKind::InvalidRequest, "{ttl} ms");
        assert_eq!(kind(latch.count_down().await), LockErrorKind::InvalidRequest, "{ttl} ms");
        assert_eq!(kind(latch.count().await), LockErrorKind::InvalidRequest, "{ttl} ms");
        assert_eq!(kind(latch.wait_within(MINUTE).await), LockErrorKind::InvalidRequest, "{ttl} ms");
    }
    assert_eq!(store.asked(), 0);
    let mut unable = Store::new();
    unable.capability.latches = false;
    assert_eq!(kind(unable.latch(MINUTE).wait_within(MINUTE).await), LockErrorKind::Unsupported);
    assert_eq!(unable.asked(), 0);
}

#[test]
fn it_prints_its_key_and_no_owner() {
    let latch = Store::new().latch(MINUTE);
    assert_eq!(format!("{latch:?}"), "CountDownLatch { key: \"l\", ttl: 60s, .. }");
}
