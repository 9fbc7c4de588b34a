use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::leader::{LeaderChange, LeaderChanges};
use lock_core::{LockManager, LossReason, Released};
use tokio::time::{Instant, timeout};

use super::{depose, label, settle};
use crate::millis;
use crate::scripted::{Asked, Scripted, no_answer};

/// Returns the next change as a text.
async fn next(changes: &mut LeaderChanges) -> String {
    match timeout(Duration::from_secs(60), changes.next()).await {
        Err(_) => "none".to_owned(),
        Ok(None) => "over".to_owned(),
        Ok(Some(LeaderChange::Elected { .. })) => "elected".to_owned(),
        Ok(Some(LeaderChange::Lost { reason, .. })) => format!("lost {reason:?}"),
        Ok(Some(LeaderChange::Resigned)) => "resigned".to_owned(),
        Ok(Some(LeaderChange::Vacant)) => "vacant".to_owned(),
        Ok(Some(LeaderChange::Other(leader))) => label(Some(&leader)).unwrap_or("nameless").to_owned(),
        Ok(Some(other)) => format!("{other:?}"),
    }
}

/// Returns two managers on one store, which act as two processes.
fn two() -> (LockManager, LockManager) {
    let store = Memory::new();
    let manager = |store: &Memory| LockManager::builder(store.clone()).build().unwrap();
    (manager(&store), manager(&store))
}

#[tokio::test(start_paused = true)]
async fn one_that_watches_is_told_of_each_leader() {
    let (here, there) = two();
    let watcher = here.leader("k").label("w");
    let mut changes = watcher.changes();
    assert!(changes.sees_others());
    assert_eq!(next(&mut changes).await, "vacant");
    let (a, b) = (there.leader("k").label("a"), there.leader("k").label("b"));
    let led = a.campaign().await.unwrap();
    let waits = tokio::spawn(async move { b.campaign().await });
    assert_eq!(next(&mut changes).await, "a");
    led.resign().await.unwrap();
    let led = waits.await.unwrap().unwrap();
    let began = Instant::now();
    assert_eq!(next(&mut changes).await, "b");
    assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
    drop(led);
    assert_eq!(next(&mut changes).await, "vacant");
    assert_eq!(next(&mut changes).await, "none");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_is_told_of_its_own_lead_at_once() {
    let (here, there) = two();
    let election = here.leader("k").ttl(millis(60_000)).label("own");
    let mut changes = election.changes();
    assert_eq!(next(&mut changes).await, "vacant");
    let began = Instant::now();
    let led = election.campaign().await.unwrap();
    assert_eq!(next(&mut changes).await, "elected");
    let other = there.leader("k").label("other");
    let waits = tokio::spawn(async move { other.campaign().await });
    assert_eq!(next(&mut changes).await, "none");
    let waited = began.elapsed();
    assert!(depose(&there, "k").await.unwrap());
    assert_eq!(next(&mut changes).await, "lost Forced");
    assert_eq!(began.elapsed(), waited, "at once");
    // The key has no leader until the other candidate acquires it.
    settle().await;
    assert_eq!(next(&mut changes).await, "other");
    assert_eq!(began.elapsed(), waited + millis(5), "it is asked at once who follows");
    drop(led);
    waits.await.unwrap().unwrap().resign().await.unwrap();
    assert_eq!(next(&mut changes).await, "vacant");
    let led = election.campaign().await.unwrap();
    assert_eq!(next(&mut changes).await, "elected");
    led.resign().await.unwrap();
    assert_eq!(next(&mut changes).await, "resigned");
    assert_eq!(next(&mut changes).await, "vacant");
}

/// If two candidates of one process were created at the same time, their records are equal.
#[tokio::test(start_paused = true)]
async fn the_lead_of_a_sibling_is_not_taken_for_ones_own() {
    let locks = LockManager::in_memory();
    let (a, b) = (locks.leader("k"), locks.leader("k"));
    let (mut of_a, mut of_b) = (a.changes(), b.changes());
    let first = a.campaign().await.unwrap();
    let waits = tokio::spawn({
        let b = b.clone();
        async move { b.campaign().await }
    });
    tokio::task::yield_now().await;
    assert_eq!((next(&mut of_a).await, next(&mut of_b).await), ("elected".into(), "nameless".into()));
    first.resign().await.unwrap();
    let second = waits.await.unwrap().unwrap();
    assert_eq!((next(&mut of_a).await, next(&mut of_b).await), ("resigned".into(), "elected".into()));
    assert_eq!(next(&mut of_a).await, "nameless");
    drop(second);
}

/// A lost grant stays in the store for a while, but its candidate does not lead any more.
#[tokio::test(start_paused = true)]
async fn what_is_left_of_its_own_lead_is_no_other_leader() {
    let (locks, store) = Scripted::manager(|_| {});
    let election = locks.leader("k").ttl(millis(900));
    let mut changes = election.changes();
    let led = election.campaign().await.unwrap();
    assert_eq!(next(&mut changes).await, "elected");
    store.script().inspect_takes = millis(100);
    let waits = tokio::spawn(async move { (next(&mut changes).await, changes) });
    settle().await;
    let lost = Instant::now();
    for owner in store.claims().iter().map(|claim| claim.owner) {
        store.listener().lost(owner, LossReason::Taken);
    }
    let (change, mut changes) = waits.await.unwrap();
    assert_eq!(
        (change.as_str(), lost.elapsed()),
        ("lost Taken", Duration::ZERO),
        "the store is not asked for that"
    );
    assert_eq!(next(&mut changes).await, "vacant");
    drop(led);
    assert_eq!(next(&mut changes).await, "none");
}

#[tokio::test(start_paused = true)]
async fn it_asks_once_in_a_pause_and_not_while_it_leads() {
    let (locks, store) = Scripted::manager(|_| {});
    let election = locks.leader("k").ttl(Duration::from_secs(3));
    let asked = || store.asked(&Asked::Inspect);
    let mut changes = election.changes();
    assert_eq!(next(&mut changes).await, "vacant");
    assert_eq!(next(&mut changes).await, "none");
    // This is one request in each second, for a minute.
    assert!((59..=62).contains(&asked()), "{}", asked());
    let mut rarely = election.changes().every(Duration::from_secs(20));
    let before = asked();
    assert_eq!(next(&mut rarely).await, "vacant");
    assert_eq!(next(&mut rarely).await, "none");
    assert!(asked() - before <= 5, "{}", asked() - before);
    // A reader that drops its future again and again causes no additional requests.
    let before = asked();
    store.script().inspect_takes = millis(10);
    for _ in 0..15_000 {
        assert!(timeout(millis(2), rarely.next()).await.is_err());
    }
    store.script().inspect_takes = Duration::ZERO;
    assert!((1..=2).contains(&(asked() - before)), "{}", asked() - before);
    let led = election.campaign().await.unwrap();
    assert_eq!(next(&mut changes).await, "elected");
    let before = asked();
    assert_eq!(next(&mut changes).await, "none");
    assert_eq!(asked(), before, "it leads, and knows it");
    drop(led);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_no_news() {
    let (locks, store) = Scripted::manager(|_| {});
    let election = locks.leader("k").label("a");
    let led = election.campaign().await.unwrap();
    let mut changes = locks.leader("k").changes();
    assert_eq!(next(&mut changes).await, "a");
    store.script().inspect.extend((0..5).map(|_| Err(no_answer())));
    assert_eq!(next(&mut changes).await, "none");
    led.resign().await.unwrap();
    assert_eq!(next(&mut changes).await, "vacant");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_say_who_holds_tells_of_ones_own_lead() {
    let (locks, store) = Scripted::manager(|store| store.lists = false);
    let election = locks.leader("k");
    let mut changes = election.changes();
    assert!(!changes.sees_others());
    assert_eq!(next(&mut changes).await, "none");
    let led = election.campaign().await.unwrap();
    assert_eq!(next(&mut changes).await, "elected");
    drop(led);
    assert_eq!(next(&mut changes).await, "resigned");
    assert_eq!(next(&mut changes).await, "none");
    assert_eq!(store.asked(&Asked::Inspect), 0);
    let waits = tokio::spawn(async move { next(&mut changes).await });
    tokio::task::yield_now().await;
    locks.shutdown(Duration::ZERO).await;
    assert_eq!(waits.await.unwrap(), "over");
}

/// A term may end while its `Leadership` still exists, or after the leader has resigned.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_lead_is_told_when_it_ends() {
    let (here, there) = two();
    let election = here.leader("k").label("own");
    let mut changes = election.changes();
    assert_eq!(next(&mut changes).await, "vacant");
    let led = election.campaign().await.unwrap();
    assert_eq!(next(&mut changes).await, "elected");
    let handle = led.guard().handle();
    let early = async {
        settle().await;
        handle.release_early().await.unwrap()
    };
    let (told, released) = tokio::join!(next(&mut changes), early);
    assert_eq!((told.as_str(), released), ("resigned", Released::Released), "while the body goes on");
    drop(led);
    assert_eq!(next(&mut changes).await, "vacant");

    let led = election.campaign().await.unwrap();
    assert_eq!(next(&mut changes).await, "elected");
    let guard = led.guard().handle().to_guard().unwrap();
    assert_eq!(led.resign().await.unwrap(), Released::StillHeld);
    assert_eq!(next(&mut changes).await, "none", "the guard holds the lead");
    assert!(there.leader("k").current().await.unwrap().is_some());
    let late = async {
        settle().await;
        guard.release().await.unwrap()
    };
    let (told, _) = tokio::join!(next(&mut changes), late);
    assert_eq!(told, "resigned");
    assert_eq!(next(&mut changes).await, "vacant");
}
