//! Tests which grants are released, how often, and for which owner.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use lock_core::backend::{Attempt, Grant, Held};
use lock_core::clock::Clock;
use lock_core::{LockErrorKind, LockManager, Release, Released, strategy};
use tokio::time::Instant;

use crate::scripted::{Scripted, no_answer};
use crate::{is_free, millis};

/// Returns a manager and its scripted store.
fn slow() -> (LockManager, Scripted) {
    let (locks, store) = Scripted::manager(|_| {});
    (locks, store)
}

fn fast(locks: &LockManager, ttl: Duration) -> lock_core::LockRequest {
    locks.lock("k").ttl(ttl).strategy(strategy::fail_fast())
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_taken_is_given_back_until_it_cannot_come_any_more() {
    for ttl in [60_000, 1_000] {
        let (locks, store) = slow();
        store.script().acquire.push_back(Err(no_answer()));
        let start = Instant::now();
        fast(&locks, millis(ttl)).acquire().await.unwrap_err();
        tokio::time::sleep(millis(100_000)).await;
        let times = store.release_times(start);
        assert!(times.len() >= 3 && times[0] == 0, "{times:?}");
        let last = times[times.len() - 1];
        assert!(if ttl == 60_000 { last >= 5_000 } else { last <= 1_010 }, "{ttl} ms: {times:?}");
        let tries = store.tries();
        assert!(store.releases().iter().all(|(owner, keep_for)| *owner == tries[0] && keep_for.is_none()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_came_late_and_was_given_back_is_not_asked_for_again() {
    let (locks, store) = slow();
    store.script().acquire.push_back(Err(no_answer()));
    store.script().release.extend([Ok(Released::Expired), Ok(Released::Released)]);
    fast(&locks, millis(60_000)).acquire().await.unwrap_err();
    tokio::time::sleep(millis(60_000)).await;
    assert_eq!(store.releases().len(), 2);
}

/// A request for several keys has the same owner as the single grants before it. A release that finds only those grants
/// does not settle the request, because the request may still arrive.
#[tokio::test(start_paused = true)]
async fn a_release_of_earlier_grants_does_not_settle_a_later_request() {
    let (locks, store) = slow();
    let granted = || Ok(Attempt::Granted(Grant::new(Clock::Tokio.now(), millis(60_000))));
    store.script().acquire.extend([Ok(Attempt::Held(Held::default())), granted(), granted()]);
    store.script().acquire.push_back(Err(no_answer()));
    store.script().release.extend((0..20).map(|_| Ok(Released::Released)));
    let start = Instant::now();
    let guard = locks.all(["a", "b"]).ttl(millis(60_000)).acquire().await.unwrap();
    let tries = store.tries();
    assert!(tries.len() == 5 && tries[1] == tries[3] && tries[3] != tries[4], "{tries:?}");
    tokio::time::sleep(millis(15_000)).await;
    assert!(store.releases().iter().all(|(owner, _)| *owner == tries[3]));
    let times = store.release_times(start);
    assert!(times.len() == 4 && times[3] >= 5_000, "{times:?}");
    drop(guard);
}

/// The claim was sent in two requests. A release may free the grant of one request while the other request is still in
/// flight.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_sent_twice_is_released_to_the_last() {
    let held = Ok(Attempt::Held(Held::default()));
    for answer in [None, Some(held), Some(Err(no_answer().nothing_taken()))] {
        let (locks, store) = slow();
        let is_granted = answer.is_none();
        store.script().resends = true;
        store.script().acquire.extend(answer);
        store.script().release.extend((0..20).map(|_| Ok(Released::Released)));
        let start = Instant::now();
        match fast(&locks, millis(60_000)).acquire().await {
            Ok(guard) => assert!(is_granted && guard.release().await.is_ok()),
            Err(error) => assert!(!is_granted, "{error}"),
        }
        tokio::time::sleep(millis(60_000)).await;
        let times = store.release_times(start);
        assert_eq!(times.len(), 4 + usize::from(is_granted), "{times:?}");
        assert!(times[times.len() - 1] >= 5_000, "{times:?}");
        let tries = store.tries();
        assert!(store.releases().iter().all(|(owner, _)| *owner == tries[0]));
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_given_back_is_never_used_again() {
    let (locks, store) = slow();
    store.script().acquire.push_back(Err(no_answer()));
    let guard = locks.lock("k").acquire().await.unwrap();
    let tries = store.tries();
    assert_eq!(tries.len(), 2);
    assert_ne!(tries[0], tries[1]);
    tokio::time::sleep(millis(15_000)).await;
    assert!(store.releases().iter().all(|(owner, _)| *owner == tries[0]));
    guard.release().await.unwrap();
    assert_eq!(store.releases().last().unwrap().0, tries[1]);
}

#[tokio::test(start_paused = true)]
async fn what_the_store_certainly_did_not_give_is_not_given_back() {
    let (locks, store) = slow();
    store.script().acquire.push_back(Err(no_answer().nothing_taken()));
    store.script().acquire.push_back(Ok(Attempt::Held(Held::default())));
    fast(&locks, millis(60_000)).acquire().await.unwrap_err();
    fast(&locks, millis(60_000)).acquire().await.unwrap_err();
    tokio::time::sleep(millis(1_000)).await;
    assert_eq!(store.releases(), []);
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_given_back_once() {
    let (locks, store) = slow();
    let guard = locks.lock("k").acquire().await.unwrap();
    tokio::time::sleep(millis(1_000)).await;
    assert_eq!(store.releases(), [], "not while it is held");
    guard.release().await.unwrap();
    tokio::time::sleep(millis(20_000)).await;
    assert_eq!(store.releases().len(), 1);
    // Any answer settles the release.
    let guard = locks.lock("k").acquire().await.unwrap();
    store.script().release.push_back(Ok(Released::Expired));
    drop(guard);
    tokio::time::sleep(millis(20_000)).await;
    assert_eq!(store.releases().len(), 2);
    assert_eq!(locks.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_place_in_the_queue_of_the_store_is_given_back() {
    // Here the waiter leaves the queue because its future is dropped.
    let (locks, store) = slow();
    let other = store.stranger();
    let holder = other.fair("k").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.fair("k").wait(millis(60_000)).acquire());
    tokio::time::sleep(millis(10)).await;
    waiting.abort();
    let _ = waiting.await;
    tokio::time::sleep(millis(10)).await;
    assert_eq!(store.releases(), [(store.tries()[0].clone(), None)]);
    drop(holder);
    assert!(is_free(&other, "k").await);

    // Here a try gets no answer. The queue entry is released, and another owner is queued. If the try was refused, the
    // queue entry remains.
    for (error, is_left) in [(no_answer(), true), (no_answer().nothing_taken(), false)] {
        let (locks, store) = slow();
        let place = Some(Clock::Tokio.now());
        store.script().acquire.push_back(Ok(Attempt::Held(Held { queued_at: place, ..Held::default() })));
        store.script().acquire.push_back(Err(error));
        let guard = locks.fair("k").wait(millis(60_000)).acquire().await.unwrap();
        let tries = store.tries();
        assert!(tries.len() == 3 && tries[0] == tries[1], "{tries:?}");
        tokio::time::sleep(millis(10)).await;
        let left = store.releases().into_iter().next().map(|(owner, _)| owner);
        assert_eq!((tries[1] != tries[2], left), (is_left, is_left.then(|| tries[0].clone())));
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_release_is_tried_until_the_lease_is_over_with_longer_pauses() {
    let (locks, store) = slow();
    let guard = locks.lock("k").ttl(millis(1_000)).renew(false).acquire().await.unwrap();
    store.script().release.extend((0..50).map(|_| Err(no_answer())));
    let start = Instant::now();
    drop(guard);
    tokio::time::sleep(millis(60_000)).await;
    let times = store.release_times(start);
    let due = [0, 20, 60, 140, 300, 620, 1_260];
    assert!(
        times.len() == due.len() && times.iter().zip(due).all(|(at, due)| at.abs_diff(due) < 10),
        "{times:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_extended_lease_is_given_back_for_as_long_as_it_lasts() {
    let (locks, store) = slow();
    let guard = locks.lock("k").ttl(millis(300)).renew(false).acquire().await.unwrap();
    guard.extend(millis(10_000)).await.unwrap();
    store.script().release.extend((0..50).map(|_| Err(no_answer())));
    let start = Instant::now();
    drop(guard);
    tokio::time::sleep(millis(60_000)).await;
    assert!(*store.release_times(start).last().unwrap() >= 10_000);
}

#[tokio::test(start_paused = true)]
async fn min_hold_counts_from_the_grant_however_the_lock_ends() {
    // The lock ends by a drop, by a release, by an unanswered release, or by a shutdown.
    for way in 0..4 {
        let (locks, store) = slow();
        let guard = locks.lock("k").min_hold(millis(2_000)).acquire().await.unwrap();
        tokio::time::sleep(millis(500)).await;
        match way {
            0 => drop(guard),
            1 => drop(guard.release().await),
            2 => {
                store.script().release.push_back(Err(no_answer()));
                assert!(guard.release().await.unwrap_err().is_unavailable());
            }
            _ => {
                locks.shutdown(Duration::ZERO).await;
                assert!(!guard.is_held());
            }
        }
        tokio::time::sleep(millis(100)).await;
        let releases = store.releases();
        let kept = releases[0].1.expect("it is kept");
        assert!(kept <= millis(1_500) && kept >= millis(1_490), "{way}: {kept:?}");
        let last = releases.last().unwrap().1.expect("it is kept");
        assert!(last <= kept && last >= millis(1_400), "{way}: {last:?}");
    }
    let (locks, store) = slow();
    let guard = locks.lock("k").min_hold(millis(100)).acquire().await.unwrap();
    tokio::time::sleep(millis(100)).await;
    guard.release().await.unwrap();
    assert_eq!(store.releases()[0].1, None, "nothing is left of it");
}

/// A log that needs the given time for each event.
struct SlowLog(Duration);

impl tracing::Subscriber for SlowLog {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("lock_core")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        // The clock advances at the first poll of this future.
        let _ = pin!(tokio::time::advance(self.0)).poll(&mut Context::from_waker(Waker::noop()));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// The log receives the release before the store does. The remaining `min_hold` counts from the end of the log's call.
#[tokio::test(start_paused = true)]
async fn min_hold_counts_from_the_grant_also_where_the_log_is_slow() {
    // If there is only one subscriber and another test reaches a call site first, tracing disables that call site for
    // all tests.
    let _second = tracing::Dispatch::new(SlowLog(Duration::ZERO));
    for way in ["release", "early", "background"] {
        let (locks, store) = slow();
        let request = locks.lock("k").min_hold(millis(2_000));
        let guard = request.release(Release::Background).acquire().await.unwrap();
        tokio::time::sleep(millis(500)).await;
        let log = tracing::subscriber::set_default(SlowLog(millis(1_000)));
        match way {
            "release" => drop(guard.release().await),
            "early" => drop(guard.handle().release_early().await),
            _ => guard.release_within(Duration::ZERO).await,
        }
        drop(log);
        let kept = store.releases()[0].1.expect("it is kept");
        assert!(kept <= millis(500) && kept >= millis(490), "{way}: {kept:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_goes_away_takes_its_keeper_along() {
    let (locks, store) = slow();
    drop(locks.lock("k").acquire().await.unwrap());
    store.script().acquire.push_back(Err(no_answer()));
    fast(&locks, millis(60_000)).acquire().await.unwrap_err();
    tokio::time::sleep(millis(10)).await;
    drop(locks);
    tokio::time::sleep(millis(1_000)).await;
    let given_back = store.releases().len();
    assert!(given_back <= 3, "no release is repeated for long after the manager: {given_back}");
    assert_eq!(std::sync::Arc::strong_count(&store.script), 1);
}

/// Over a remote store, the renewer runs in its own thread, so this test uses the real clock.
#[tokio::test]
async fn the_last_releases_outlive_the_manager_and_the_runtime() {
    let (locks, store) = Scripted::manager(|store| store.placement = lock_core::backend::Placement::Remote);
    store.script().release_takes = millis(50);
    let guard = locks.lock("k").acquire().await.unwrap();
    drop(guard);
    drop(locks);
    let start = Instant::now();
    while store.script().released == 0 {
        assert!(start.elapsed() < millis(60_000), "the release was dropped with the manager");
        tokio::time::sleep(millis(5)).await;
    }
    assert_eq!(store.releases().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_try_is_one_try() {
    let (locks, store) = slow();
    let holder = store.stranger().lock("k").acquire().await.unwrap();
    assert!(locks.lock("k").strategy(strategy::wait()).try_acquire().await.unwrap().is_none());
    assert_eq!(store.tries().len(), 1);
    let error = fast(&locks, millis(1_000)).acquire().await.unwrap_err();
    assert_eq!((error.kind(), store.tries().len()), (LockErrorKind::Contended, 2));
    drop(holder);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_cleaned_up_after_for_longer_than_a_short_ttl() {
    let (locks, store) = slow();
    store.script().acquire.push_back(Err(no_answer()));
    store.script().release.extend((0..200).map(|_| Err(no_answer())));
    let start = Instant::now();
    fast(&locks, millis(500)).acquire().await.unwrap_err();
    tokio::time::sleep(millis(120_000)).await;
    let last = *store.release_times(start).last().unwrap();
    assert!((29_000..=32_000).contains(&last), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lease_is_given_back_for_as_long_as_the_last_renewal_lasts() {
    let (locks, store) = slow();
    let guard = locks.lock("k").ttl(millis(1_000)).acquire().await.unwrap();
    tokio::time::sleep(millis(10_000)).await;
    store.script().release.extend((0..50).map(|_| Err(no_answer())));
    let start = Instant::now();
    drop(guard);
    tokio::time::sleep(millis(60_000)).await;
    let times = store.release_times(start);
    assert!(times.len() >= 5 && *times.last().unwrap() >= 600, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_cuts_the_repeats_short_after_one_more() {
    let (locks, store) = slow();
    store.script().acquire.push_back(Err(no_answer()));
    fast(&locks, millis(60_000)).acquire().await.unwrap_err();
    tokio::time::sleep(millis(200)).await;
    let before = store.releases().len();
    let start = Instant::now();
    assert_eq!(locks.shutdown(millis(30_000)).await.unanswered, 0);
    assert!(start.elapsed() < millis(10), "{:?}", start.elapsed());
    assert_eq!(store.releases().len(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn releases_do_not_crowd_the_store() {
    let (locks, store) = slow();
    let mut guards = Vec::new();
    for i in 0..1_000 {
        guards.push(locks.lock(format!("k{i}")).acquire().await.unwrap());
    }
    store.script().release_takes = millis(100);
    drop(guards);
    tokio::time::sleep(millis(50)).await;
    let at_once = store.releases().len();
    assert!((100..=300).contains(&at_once), "{at_once} under way");
    tokio::time::sleep(millis(1_000)).await;
    assert_eq!(store.script().released, 1_000);
}

/// The body is not an `async` block, so its values are dropped with its future, and not when the body ends.
#[tokio::test(start_paused = true)]
async fn what_the_body_holds_is_dropped_before_the_release() {
    struct Witness(Scripted);
    impl Drop for Witness {
        fn drop(&mut self) {
            assert_eq!(self.0.releases(), [], "the key was given back first");
        }
    }
    let (locks, store) = slow();
    let witness = Witness(store.clone());
    let body = std::future::poll_fn(move |_| {
        let _held = &witness;
        std::task::Poll::Ready(42)
    });
    assert_eq!(locks.lock("k").run(body).await.unwrap(), 42);
    assert_eq!(store.releases().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_for_its_release() {
    let (locks, store) = slow();
    store.script().release_takes = millis(300);
    let start = Instant::now();
    locks.lock("k").run(async {}).await.unwrap();
    assert!(start.elapsed() >= millis(300) && start.elapsed() < millis(310), "{:?}", start.elapsed());
    assert_eq!(store.script().released, 1);
}
