//! Tests of `LockManager::events`.

use lock_core::backend::memory::Memory;
use lock_core::testkit::{Fault, Operation};
use lock_core::{LockErrorKind, LockEvent, LockEvents, LockManager, LossReason, strategy};

use crate::{KEY, TEMPLATE, flaky, millis, order, patient, secs};

/// Returns the next event. Panics if there is none yet.
async fn next(events: &mut LockEvents) -> LockEvent {
    let next = tokio::time::timeout(millis(1), events.next()).await;
    next.expect("it was told").expect("the manager is there")
}

/// Returns whether the stream has ended, instead of waiting for ever.
async fn has_ended(events: &mut LockEvents) -> bool {
    matches!(tokio::time::timeout(secs(60), events.next()).await, Ok(None))
}

async fn assert_silent(events: &mut LockEvents) {
    let next = tokio::time::timeout(millis(1), events.next()).await;
    assert!(next.is_err(), "{next:?}");
}

macro_rules! expect {
    ($events:expr, $pattern:pat => $then:expr) => {
        match next($events).await {
            $pattern => $then,
            other => panic!("{other:?}"),
        }
    };
}

#[tokio::test(start_paused = true)]
async fn the_life_of_a_lock() {
    let locks = LockManager::builder(Memory::new()).service("shop").build().unwrap();
    let mut events = locks.events();
    let guard = order(&locks).label("pay").fencing(true).acquire().await.unwrap();
    let token = guard.fencing_token().await.unwrap();
    expect!(&mut events, LockEvent::Granted { lock, waited, fencing_token, .. } => {
        assert_eq!((lock.key.as_str(), lock.template.as_deref()), (KEY, Some(TEMPLATE)));
        assert_eq!((lock.label.as_deref(), lock.more.len()), (Some("pay"), 0));
        assert_eq!((waited, fencing_token), (secs(0), Some(token)));
    });
    assert!(patient(&locks, secs(2)).acquire().await.is_err());
    expect!(&mut events, LockEvent::Refused { lock, why, waited, holder, skipped, .. } => {
        assert_eq!((lock.key.as_str(), why, waited), (KEY, LockErrorKind::TimedOut, secs(2)));
        let holder = holder.expect("the memory store knows");
        assert_eq!((holder.label(), holder.identity().service(), skipped), (Some("pay"), "shop", false));
    });
    assert!(order(&locks).strategy(strategy::skip()).acquire().await.is_err());
    expect!(&mut events, LockEvent::Refused { skipped, .. } => assert!(skipped));
    guard.release().await.unwrap();
    expect!(&mut events, LockEvent::Released { lock, held, fencing_token, .. } => {
        assert_eq!((lock.key.as_str(), fencing_token), (KEY, Some(token)));
        assert!(held >= secs(2) && held < secs(3), "{held:?}");
    });
    locks.record_bypass(TEMPLATE);
    expect!(&mut events, LockEvent::Bypassed { template, .. } => assert_eq!(&*template, TEMPLATE));
    assert_silent(&mut events).await;
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong() {
    let (locks, control) = flaky(|builder| builder.warn_held_after(millis(500)));
    let mut events = locks.events();
    control.fail_next(Operation::Acquire, Fault::Refuse, 1);
    let guard = patient(&locks, secs(5)).ttl(secs(3)).acquire().await.unwrap();
    expect!(&mut events, LockEvent::StoreFailed { error, .. } => assert!(error.contains("unavailable")));
    expect!(&mut events, LockEvent::Granted { .. } => ());
    control.fail_always(Operation::Renew, Fault::LoseRequest);
    guard.lost().await;
    expect!(&mut events, LockEvent::HeldLong { held, .. } => assert!(held >= millis(500)));
    expect!(&mut events, LockEvent::Endangered { left, .. } => assert!(left > secs(1)));
    expect!(&mut events, LockEvent::Lost { lock, reason, held, .. } => {
        assert_eq!((lock.template.as_deref(), reason), (Some(TEMPLATE), LossReason::Expired));
        assert!(held > secs(2) && held < secs(3));
    });
    drop(guard);
    assert_silent(&mut events).await;
    control.heal();

    let guard = order(&locks).acquire().await.unwrap();
    control.fail_next(Operation::Release, Fault::LoseRequest, 2);
    assert!(guard.release().await.is_err());
    expect!(&mut events, LockEvent::Granted { .. } => ());
    expect!(&mut events, LockEvent::Released { .. } => ());
    expect!(&mut events, LockEvent::ReleaseFailed { .. } => ());
    tokio::time::sleep(secs(1)).await;
    let guard = order(&locks).acquire().await.unwrap();
    assert!(tokio::time::timeout(millis(100), patient(&locks, secs(5)).acquire()).await.is_err());
    expect!(&mut events, LockEvent::Granted { .. } => ());
    expect!(&mut events, LockEvent::Cancelled { waited, .. } => assert_eq!(waited, millis(100)));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn every_listener_gets_everything_from_its_beginning_on() {
    let locks = LockManager::in_memory();
    let (mut first, mut second) = (locks.events(), locks.events());
    drop(order(&locks).acquire().await.unwrap());
    let mut late = locks.events();
    for events in [&mut first, &mut second] {
        expect!(events, LockEvent::Granted { .. } => ());
        expect!(events, LockEvent::Released { .. } => ());
    }
    assert_silent(&mut late).await;
    drop(first);
    drop(order(&locks).acquire().await.unwrap());
    expect!(&mut late, LockEvent::Granted { .. } => ());
    expect!(&mut second, LockEvent::Granted { .. } => ());
}

#[tokio::test(start_paused = true)]
async fn one_who_does_not_listen_blocks_nobody_and_is_told_what_was_missed() {
    let locks = LockManager::in_memory();
    let mut events = locks.events();
    for _ in 0..1_000 {
        drop(order(&locks).acquire().await.unwrap());
    }
    expect!(&mut events, LockEvent::Missed(missed) => assert_eq!(missed, 2_000 - 1_024));
    let mut rest = 0;
    while let Ok(Some(_)) = tokio::time::timeout(millis(1), events.next()).await {
        rest += 1;
    }
    assert_eq!(rest, 1_024);
    drop(order(&locks).acquire().await.unwrap());
    expect!(&mut events, LockEvent::Granted { .. } => ());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_stream_after_its_last_word() {
    let locks = LockManager::in_memory();
    let mut events = locks.events();
    let guard = order(&locks).acquire().await.unwrap();
    expect!(&mut events, LockEvent::Granted { .. } => ());
    locks.shutdown(millis(5)).await;
    drop(guard);
    expect!(&mut events, LockEvent::Lost { reason, .. } => assert_eq!(reason, LossReason::ShutDown));
    assert!(has_ended(&mut events).await);
    assert!(has_ended(&mut locks.events()).await, "nothing happens any more");
}

#[tokio::test(start_paused = true)]
async fn the_stream_ends_with_its_manager() {
    let locks = LockManager::in_memory();
    let mut events = locks.events();
    let guard = order(&locks).acquire().await.unwrap();
    drop(locks);
    expect!(&mut events, LockEvent::Granted { .. } => ());
    assert_silent(&mut events).await;
    drop(guard);
    expect!(&mut events, LockEvent::Released { .. } => ());
    tokio::task::yield_now().await;
    assert!(has_ended(&mut events).await);
}

#[tokio::test(start_paused = true)]
async fn several_keys_are_one_event_and_a_nested_call_is_none() {
    let locks = LockManager::in_memory();
    let mut events = locks.events();
    let both = locks.all(["a", "b"]);
    both.run(async { drop(locks.lock("b").acquire().await.unwrap()) }).await.unwrap();
    expect!(&mut events, LockEvent::Granted { lock, .. } => {
        assert_eq!((lock.key.as_str(), lock.more[0].as_str()), ("a", "b"));
    });
    expect!(&mut events, LockEvent::Released { .. } => ());
    let writer = locks.write("report").acquire().await.unwrap();
    drop(writer.downgrade().await.unwrap());
    expect!(&mut events, LockEvent::Granted { .. } => ());
    expect!(&mut events, LockEvent::Released { .. } => ());
    assert_silent(&mut events).await;
}

/// The first key has no guard yet, so no warning reports that it is held for long.
#[tokio::test(start_paused = true)]
async fn a_part_that_waits_for_another_key_for_long_is_renewed_as_ever() {
    let (locks, control) = flaky(|builder| builder.warn_held_after(secs(5)));
    let _held = locks.lock("b").acquire().await.unwrap();
    let both = locks.all(["a", "b"]).ttl(secs(3)).strategy(strategy::wait());
    let waiting = tokio::spawn(both.acquire());
    tokio::time::sleep(secs(60)).await;
    assert!(!waiting.is_finished());
    let renewals = control.calls(Operation::Renew);
    assert!(renewals < 100, "{renewals} renewals");
}
