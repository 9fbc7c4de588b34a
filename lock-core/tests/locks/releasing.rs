//! Tests bodies that end before their release is answered, and the next acquisition of the same key.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use fastrand::Rng;
use lock_core::backend::Placement;
use lock_core::{LockEvent, LockManager, LockRequest, Profile, Release, ShutdownReport, strategy};
use tokio::runtime::Builder;
use tokio::time::Instant;

use crate::wire::Sent::{Acquire, Release as Back};
use crate::wire::Wire;
use crate::{is_free, millis};

const ROOMY: usize = usize::MAX;

/// Returns a request with one try, whose release is not awaited.
fn quick(locks: &LockManager) -> LockRequest {
    locks.lock("k").ttl(millis(60_000)).strategy(strategy::fail_fast()).release(Release::Background)
}

/// Runs a body to its end. The wire delivers its acquire, and its release remains on the wire.
async fn ended(locks: &LockManager, wire: &Wire) {
    let running = tokio::spawn(quick(locks).run(async {}));
    wire.until(&[Acquire]).await;
    assert!(wire.deliver().await);
    running.await.expect("no panic").expect("the key is free");
    wire.until(&[Back]).await;
}

async fn settle() {
    tokio::time::sleep(millis(1)).await;
}

/// The test polls by hand, so no runtime runs between the body and the release.
#[tokio::test(start_paused = true)]
async fn the_release_is_on_its_way_when_the_body_has_ended() {
    for placement in [Placement::Embedded, Placement::Remote] {
        let (locks, wire) = Wire::placed(ROOMY, placement);
        let mut running = pin!(quick(&locks).run(async {}));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(running.as_mut().poll(&mut cx).is_pending());
        assert!(wire.deliver().await);
        assert!(running.as_mut().poll(&mut cx).is_ready(), "it waits for nobody");
        assert_eq!(wire.on_wire(), [Back], "{placement:?}");
        assert!(wire.deliver().await);
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_acquisition_waits_for_the_answer() {
    let (locks, wire) = Wire::manager(ROOMY);
    ended(&locks, &wire).await;
    let next = tokio::spawn(quick(&locks).acquire());
    settle().await;
    assert_eq!(wire.on_wire(), [Back]);
    assert!(wire.deliver().await);
    wire.until(&[Acquire]).await;
    assert!(wire.deliver().await && next.await.expect("no panic").is_ok());
}

/// A guard or an acquisition is dropped, so its release is not awaited. The next request makes only one try, and is not
/// refused.
#[tokio::test(start_paused = true)]
async fn what_is_dropped_does_not_refuse_its_own_process() {
    let request = |locks: &LockManager| locks.lock("k").ttl(millis(60_000)).strategy(strategy::fail_fast());
    for is_guard in [true, false] {
        let (locks, wire) = Wire::manager(ROOMY);
        let acquiring = tokio::spawn(request(&locks).acquire());
        wire.until(&[Acquire]).await;
        if is_guard {
            assert!(wire.deliver().await);
            drop(acquiring.await.expect("no panic").expect("it is free"));
            wire.until(&[Back]).await;
        } else {
            // The request continues without its caller, and is granted.
            acquiring.abort();
            wire.until(&[Acquire, Back]).await;
            assert!(wire.deliver().await);
        }
        let next = tokio::spawn(request(&locks).acquire());
        settle().await;
        assert_eq!(wire.on_wire(), [Back], "the next request is not sent before the release");
        assert!(wire.deliver().await);
        wire.until(&[Acquire]).await;
        assert!(wire.deliver().await && next.await.expect("no panic").is_ok());
    }
}

/// A release that found no room on the wire has no position in the order of requests yet.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_sent_yet_is_waited_for() {
    let (locks, wire) = Wire::manager(1);
    let running = tokio::spawn(quick(&locks).run(async {
        tokio::time::sleep(millis(10)).await;
    }));
    wire.until(&[Acquire]).await;
    wire.deliver().await;
    settle().await;
    let other = tokio::spawn(locks.lock("other").acquire());
    wire.until(&[Acquire]).await;
    running.await.expect("no panic").expect("the key is free");
    assert_eq!(wire.on_wire(), [Acquire], "there was no room for the release");
    let next = tokio::spawn(quick(&locks).acquire());
    settle().await;
    wire.deliver().await;
    let other = other.await.expect("no panic").expect("it is free");
    wire.until(&[Back]).await;
    settle().await;
    wire.deliver().await;
    wire.until(&[Acquire]).await;
    assert!(wire.deliver().await && next.await.expect("no panic").is_ok());
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_release_without_an_answer_keeps_others_for_a_second_at_most() {
    let (locks, wire) = Wire::manager(ROOMY);
    ended(&locks, &wire).await;
    let start = Instant::now();
    let next = tokio::spawn(quick(&locks).acquire());
    wire.until(&[Back, Acquire]).await;
    assert!(start.elapsed() >= millis(990) && start.elapsed() < millis(1_010), "{:?}", start.elapsed());
    assert!(wire.deliver().await && wire.deliver().await);
    assert!(next.await.expect("no panic").is_ok(), "the release was first");
}

/// An awaited release also delays other requests of its process.
#[tokio::test(start_paused = true)]
async fn an_awaited_release_does_not_refuse_its_own_process() {
    let (locks, wire) = Wire::manager(ROOMY);
    let acquiring = tokio::spawn(quick(&locks).acquire());
    wire.until(&[Acquire]).await;
    wire.deliver().await;
    let releasing = tokio::spawn(acquiring.await.expect("no panic").expect("it is free").release());
    wire.until(&[Back]).await;
    let next = tokio::spawn(quick(&locks).acquire());
    settle().await;
    assert_eq!(wire.on_wire(), [Back], "the next request is not sent before the release is answered");
    // The awaiting caller gives up, and the background sends the release again.
    releasing.abort();
    wire.until(&[Back, Back]).await;
    assert!(wire.deliver().await);
    settle().await;
    assert_eq!(wire.on_wire(), [Back]);
    assert!(wire.deliver().await);
    wire.until(&[Acquire]).await;
    assert!(wire.deliver().await && next.await.expect("no panic").is_ok());
}

/// A request in the order of arrival is sent at once. If it waited for the answer to the release, other requests would
/// overtake it. If it were sent before the release, `max_waiters` could refuse it. The test polls by hand, so no runtime
/// runs between the two requests.
#[tokio::test(start_paused = true)]
async fn a_request_in_order_of_arrival_is_sent_right_after_the_release() {
    let (locks, wire) = Wire::placed(ROOMY, Placement::Remote);
    let request = || locks.fair("k").ttl(millis(60_000)).release(Release::Background);
    let mut both = pin!(async {
        request().run(async {}).await.expect("the key is free");
        request().acquire().await
    });
    let mut cx = Context::from_waker(Waker::noop());
    assert!(both.as_mut().poll(&mut cx).is_pending());
    assert!(wire.deliver().await);
    assert!(both.as_mut().poll(&mut cx).is_pending());
    assert_eq!(wire.on_wire(), [Back, Acquire]);
    assert!(wire.deliver().await && wire.deliver().await);
    assert!(both.await.is_ok());
}

#[test]
fn another_runtime_waits_for_the_answer() {
    let (locks, wire) = Wire::manager(ROOMY);
    let runtime =
        || Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let (first, second) = (runtime(), runtime());
    first.block_on(ended(&locks, &wire));
    second.block_on(async {
        let next = tokio::spawn(quick(&locks).acquire());
        settle().await;
        assert_eq!(wire.on_wire(), [Back]);
        wire.deliver().await;
        // The first runtime runs to process the answer.
        let (locks, wire) = (locks.clone(), wire.clone());
        std::thread::scope(|scope| scope.spawn(|| first.block_on(settle())).join()).expect("no panic");
        wire.until(&[Acquire]).await;
        assert!(wire.deliver().await && next.await.expect("no panic").is_ok());
        drop(locks);
    });
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_told_and_retried_and_waited_for() {
    let (locks, wire) = Wire::manager(ROOMY);
    let mut events = locks.events();
    ended(&locks, &wire).await;
    wire.cut(0).await;
    wire.until(&[Back]).await;
    let next = tokio::spawn(quick(&locks).acquire());
    settle().await;
    assert_eq!(wire.on_wire(), [Back], "the retry goes over another connection");
    wire.deliver().await;
    wire.until(&[Acquire]).await;
    assert!(wire.deliver().await && next.await.expect("no panic").is_ok());
    let mut failed = 0;
    while let Ok(Some(event)) = tokio::time::timeout(millis(1), events.next()).await {
        failed += usize::from(matches!(event, LockEvent::ReleaseFailed { .. }));
    }
    assert_eq!(failed, 1);
}

/// A request that may not use a lingering grant releases it first. If that release fails, the background repeats it. A
/// request that waited for the first release also waits for the second.
#[tokio::test(start_paused = true)]
async fn a_grant_that_is_given_back_is_waited_for_until_the_answer() {
    let (locks, wire) = Wire::manager(ROOMY);
    let acquiring = tokio::spawn(quick(&locks).linger(millis(900)).acquire());
    wire.until(&[Acquire]).await;
    assert!(wire.deliver().await);
    acquiring.await.expect("no panic").expect("it is free").release().await.expect("it lingers");
    let reader = locks.read("k").ttl(millis(60_000)).strategy(strategy::fail_fast());
    let reading = tokio::spawn(reader.acquire());
    wire.until(&[Back]).await;
    let next = tokio::spawn(quick(&locks).acquire());
    settle().await;
    reading.abort();
    wire.cut(0).await;
    wire.until(&[Back]).await;
    settle().await;
    assert_eq!(wire.on_wire(), [Back], "the grant is still held");
    assert!(wire.deliver().await);
    wire.until(&[Acquire]).await;
    assert!(wire.deliver().await && next.await.expect("no panic").is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_is_followed_as_well() {
    let (locks, wire) = Wire::manager(ROOMY);
    let running = tokio::spawn(quick(&locks).run(std::future::pending::<()>()));
    wire.until(&[Acquire]).await;
    wire.deliver().await;
    settle().await;
    running.abort();
    assert!(running.await.expect_err("dropped").is_cancelled());
    let next = tokio::spawn(quick(&locks).acquire());
    wire.until(&[Back]).await;
    settle().await;
    assert_eq!(wire.on_wire(), [Back], "it is released over another connection");
    wire.deliver().await;
    wire.until(&[Acquire]).await;
    assert!(wire.deliver().await && next.await.expect("no panic").is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_of_this_process_gets_the_grant_without_a_release() {
    let (locks, wire) = Wire::manager(ROOMY);
    let running = tokio::spawn(quick(&locks).run(tokio::time::sleep(millis(50))));
    wire.until(&[Acquire]).await;
    wire.deliver().await;
    settle().await;
    let waiting = tokio::spawn(quick(&locks).strategy(strategy::wait()).acquire());
    wire.until(&[Acquire]).await;
    for _ in 0..20 {
        wire.deliver().await;
        settle().await;
    }
    let sent = wire.sent();

    running.await.expect("no panic").expect("the key is free");
    let guard = waiting.await.expect("no panic").expect("it is handed off");
    assert_eq!((wire.sent(), wire.on_wire()), (sent, vec![]));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn an_explicit_release_is_awaited() {
    let (locks, wire) = Wire::manager(ROOMY);
    let acquiring = tokio::spawn(quick(&locks).acquire());
    wire.until(&[Acquire]).await;
    wire.deliver().await;
    let guard = acquiring.await.expect("no panic").expect("it is free");
    let releasing = tokio::spawn(guard.release());
    wire.until(&[Back]).await;
    settle().await;
    assert!(!releasing.is_finished());
    wire.deliver().await;
    assert!(releasing.await.expect("no panic").is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_profile_says_what_the_end_of_a_body_waits_for() {
    for (release, waits) in [(Release::Await, true), (Release::Background, false)] {
        let (_, wire) = Wire::manager(ROOMY);
        let locks =
            LockManager::builder(wire.clone()).profile("p", Profile::new().release(release)).build().unwrap();
        let running = tokio::spawn(locks.lock("k").profile("p").run(async {}));
        wire.until(&[Acquire]).await;
        wire.deliver().await;
        wire.until(&[Back]).await;
        settle().await;
        assert_eq!(running.is_finished(), !waits);
        wire.deliver().await;
        running.await.expect("no panic").expect("it was free");
    }
}

#[cfg(feature = "macros")]
mod by_attribute {
    use lock_core::{LockError, LockManager, distributed_lock};

    #[distributed_lock(key = "k", release = "background", manager = locks)]
    pub(super) async fn quick(locks: &LockManager) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "k", release = "await", manager = locks)]
    pub(super) async fn patient(locks: &LockManager) -> Result<(), LockError> {
        Ok(())
    }
}

#[cfg(feature = "macros")]
#[tokio::test(start_paused = true)]
async fn the_attribute_says_what_the_end_of_a_body_waits_for() {
    for waits in [true, false] {
        let (locks, wire) = Wire::manager(ROOMY);
        let running = tokio::spawn(async move {
            if waits { by_attribute::patient(&locks).await } else { by_attribute::quick(&locks).await }
        });
        wire.until(&[Acquire]).await;
        wire.deliver().await;
        wire.until(&[Back]).await;
        settle().await;
        assert_eq!(running.is_finished(), !waits);
        wire.deliver().await;
        running.await.expect("no panic").expect("it was free");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_releases_under_way() {
    let (locks, wire) = Wire::manager(ROOMY);
    ended(&locks, &wire).await;
    assert_eq!(locks.held(), 0, "the body has ended");
    let ending = tokio::spawn({
        let locks = locks.clone();
        async move { locks.shutdown(Duration::from_secs(30)).await }
    });
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!ending.is_finished());
    wire.deliver().await;
    assert_eq!(ending.await.expect("no panic"), ShutdownReport::default());

    let (locks, wire) = Wire::manager(ROOMY);
    ended(&locks, &wire).await;
    let report = locks.shutdown(Duration::from_secs(3)).await;
    assert_eq!((report.revoked.len(), report.unanswered), (0, 1));
    drop(wire);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_wakes_who_waits_for_a_release() {
    let (locks, wire) = Wire::manager(ROOMY);
    ended(&locks, &wire).await;
    let next = tokio::spawn(quick(&locks).acquire());
    settle().await;
    locks.shutdown(Duration::ZERO).await;
    let error = next.await.expect("no panic").expect_err("the manager is closed");
    assert_eq!(error.kind(), lock_core::LockErrorKind::ShuttingDown);
}

/// The task that awaited the release ends with its runtime. This test uses the real clock.
#[test]
fn a_runtime_that_ends_leaves_the_release_to_the_background() {
    let (locks, wire) = Wire::placed(ROOMY, Placement::Remote);
    let runtime = || Builder::new_current_thread().enable_all().build().expect("a runtime");
    let first = runtime();
    first.block_on(ended(&locks, &wire));
    drop(first);
    runtime().block_on(async {
        wire.until(&[Back, Back]).await;
        let next = tokio::spawn(quick(&locks).acquire());
        settle().await;
        assert_eq!(wire.on_wire(), [Back, Back], "it waits for the answer");
        while wire.deliver().await {}
        wire.until(&[Acquire]).await;
        assert!(wire.deliver().await && next.await.expect("no panic").is_ok());
    });
}

#[tokio::test(start_paused = true)]
async fn a_store_that_releases_at_once_is_not_left_waiting() {
    let locks = LockManager::in_memory();
    for _ in 0..3 {
        quick(&locks).run(async {}).await.expect("it is free");
        assert_eq!(locks.held(), 0);
    }
    assert!(is_free(&locks, "k").await);
}

/// The test has random delivery, lost connections, releases that are sent back, and futures that are dropped at any
/// await point. Tasks request the same key one after another, with one try each. No task is refused because of a lock
/// that its own process is releasing.
#[test]
fn no_seed_makes_a_process_meet_its_own_release() {
    for seed in 0..200 {
        let runtime =
            Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(one_after_the_other(seed));
    }
}

async fn one_after_the_other(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let (locks, wire) = Wire::manager(if rng.bool() { ROOMY } else { rng.usize(1..3) });
    let inside = Arc::new(AtomicUsize::new(0));
    let carrier = tokio::spawn(carry(wire.clone(), Rng::with_seed(seed + 1)));
    let noise = tokio::spawn(make_noise(locks.clone(), Rng::with_seed(seed + 2)));
    for round in 0..30 {
        let pause = rng.bool().then(|| millis(rng.u64(0..4)));
        let inside = Arc::clone(&inside);
        let body = async move {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "seed {seed}, round {round}");
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        // Even a long pause of the wire is shorter than the time for which a caller waits for a release.
        match quick(&locks).run(body).await {
            Ok(()) => {}
            Err(error) => {
                assert!(!error.is_contended(), "seed {seed}, round {round}: {error}");
                outlive_leftovers(&locks).await;
            }
        }
        if rng.u8(0..4) == 0 {
            // The request is dropped before it is sent, while it is in flight, in the body, or never.
            let limit = millis(rng.u64(0..4));
            let _ = tokio::time::timeout(limit, quick(&locks).run(tokio::time::sleep(millis(1)))).await;
            outlive_leftovers(&locks).await;
        }
    }
    noise.abort();
    carrier.abort();
}

/// Waits until the key is free. An acquisition without an answer may have acquired the key. Then the key is released,
/// but other requests do not wait for that release.
async fn outlive_leftovers(locks: &LockManager) {
    loop {
        if let Ok(guard) = quick(locks).acquire().await
            && guard.release().await.is_ok()
        {
            return;
        }
        tokio::time::sleep(millis(5)).await;
    }
}

async fn carry(wire: Wire, mut rng: Rng) {
    loop {
        match rng.u8(0..40) {
            0 => wire.cut(rng.usize(0..3)).await,
            1 => wire.send_back(1),
            2..6 => tokio::time::sleep(millis(rng.u64(0..5))).await,
            6..10 => tokio::task::yield_now().await,
            _ => {
                if !wire.deliver().await {
                    tokio::time::sleep(Duration::from_micros(500)).await;
                }
            }
        }
    }
}

async fn make_noise(locks: LockManager, mut rng: Rng) {
    loop {
        let request = locks.lock(format!("noise {}", rng.u8(0..3))).ttl(millis(60_000));
        let _ = request.release(Release::Background).run(async {}).await;
        tokio::time::sleep(millis(rng.u64(0..3))).await;
    }
}
