//! Tests which waiters are notified, and when.

use std::sync::Weak;
use std::time::Duration;

use lock_core::LockErrorKind;
use tokio::time::{Instant, sleep};

use super::store::{Fault, Store};
use super::{BEAT, MINUTE, settle, wait};
use crate::millis;

#[tokio::test(start_paused = true)]
async fn a_wait_is_told_when_another_process_opens_the_latch() {
    let store = Store::new();
    let (latch, other) = (store.latch(MINUTE), store.latch(MINUTE));
    other.set(2).await.unwrap();
    let waits = [wait(&latch), wait(&latch)];
    sleep(millis(100)).await;
    other.count_down().await.unwrap();
    settle().await;
    assert!(!waits[0].is_finished(), "one has yet to count");
    let opened = Instant::now();
    other.count_down().await.unwrap();
    for wait in waits {
        wait.await.unwrap().unwrap();
    }
    assert_eq!(opened.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_told_before_it_is_answered_misses_nothing() {
    let store = Store::new();
    let (latch, other) = (store.latch(MINUTE), store.latch(MINUTE));
    other.set(1).await.unwrap();
    store.fails(Fault::Late);
    let start = Instant::now();
    let waiting = wait(&latch);
    sleep(millis(50)).await;
    other.count_down().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), millis(100), "the late answer is from before the opening");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_not_told_costs_a_heartbeat() {
    for (ttl, heartbeat) in [(MINUTE, BEAT), (millis(600), millis(200))] {
        let store = Store::silent();
        let (latch, other) = (store.latch(ttl), store.latch(ttl));
        other.set(1).await.unwrap();
        let waiting = wait(&latch);
        settle().await;
        let opened = Instant::now();
        other.count_down().await.unwrap();
        waiting.await.unwrap().unwrap();
        let late = opened.elapsed();
        assert!(late > heartbeat / 2 && late <= heartbeat, "{late:?} with a ttl of {ttl:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_waits_of_one_process_need_no_telling_by_the_store() {
    let store = Store::silent();
    let latch = store.latch(MINUTE);
    let waiting = wait(&latch);
    settle().await;
    latch.set(1).await.unwrap();
    settle().await;
    let asked = store.asked();
    assert_eq!(asked, 3, "the wait, the setter, and the wait again");
    let opened = Instant::now();
    latch.count_down().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(opened.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_made_anew_wakes_every_wait() {
    let store = Store::silent();
    let (latch, other) = (store.latch(MINUTE), store.latch(MINUTE));
    other.set(1).await.unwrap();
    let waiting = wait(&latch);
    settle().await;
    other.count_down().await.unwrap();
    let again = Instant::now();
    let listeners: Vec<_> = store.state().listeners.iter().filter_map(Weak::upgrade).collect();
    listeners.iter().for_each(|listener| listener.reconnected());
    waiting.await.unwrap().unwrap();
    assert_eq!(again.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_latch_that_is_not_set_yet_is_waited_for() {
    let store = Store::new();
    let (latch, other) = (store.latch(MINUTE), store.latch(MINUTE));
    let waiting = wait(&latch);
    let error = latch.wait_within(millis(1_500)).await.unwrap_err();
    assert!(error.is_timed_out() && error.to_string().contains("nobody has set"), "{error}");
    assert_eq!(error.waited(), Some(millis(1_500)));
    assert!(!waiting.is_finished());
    other.set(1).await.unwrap();
    sleep(BEAT).await;
    other.count_down().await.unwrap();
    settle().await;
    assert!(waiting.is_finished());
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_limit_ends_the_wait_after_one_more_question() {
    let store = Store::silent();
    let (latch, other) = (store.latch(MINUTE), store.latch(MINUTE));
    other.set(2).await.unwrap();
    let start = Instant::now();
    let error = latch.wait_within(millis(100)).await.unwrap_err();
    assert_eq!(start.elapsed(), millis(100));
    assert_eq!((error.kind(), error.key()), (LockErrorKind::TimedOut, Some("l")));
    assert!(error.to_string().starts_with("latch did not open in time (key `l`): "), "{error}");
    assert!(error.to_string().contains("2 have yet to count"), "{error}");
    let asked = store.asked();
    assert!(latch.wait_within(Duration::ZERO).await.unwrap_err().is_timed_out());
    assert_eq!(store.asked(), asked + 1, "no limit is too short for one question");

    let limited = latch.clone();
    let waiting = tokio::spawn(async move { limited.wait_within(millis(100)).await });
    settle().await;
    other.count_down().await.unwrap();
    other.count_down().await.unwrap();
    waiting.await.unwrap().unwrap();
    latch.wait_within(Duration::ZERO).await.unwrap();
}
