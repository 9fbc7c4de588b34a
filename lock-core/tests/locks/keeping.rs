//! Tests renewals: when they are sent, what their answers change, and what `extend` changes.

use std::time::Duration;

use lock_core::backend::{Attempt, Grant, Renewal};
use lock_core::clock::Clock;
use lock_core::{LossReason, Released};
use tokio::time::Instant;

use crate::millis;
use crate::scripted::{Scripted, no_answer};

fn store() -> (lock_core::LockManager, Scripted) {
    Scripted::manager(|_| {})
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_when_it_was_sent_and_never_moves_back() {
    let (locks, store) = store();
    let sent = Clock::Tokio.now();
    tokio::time::advance(millis(100)).await;
    let granted = |ms| Ok(Attempt::Granted(Grant::new(sent, millis(ms))));
    store.script().acquire.push_back(granted(1_000));
    let guard = locks.lock("k").ttl(millis(1_000)).acquire().await.unwrap();
    assert_eq!(guard.remaining(), millis(898));
    // A late answer to an older request does not shorten the known lease.
    store.script().renew.push_back(Renewal::Renewed { sent, lease: millis(500), waiters: None });
    guard.extend(millis(500)).await.unwrap();
    assert_eq!(guard.remaining(), millis(898));
    store.script().renew.push_back(Renewal::Renewed { sent, lease: millis(2_000), waiters: None });
    guard.extend(millis(2_000)).await.unwrap();
    assert_eq!(guard.remaining(), millis(1_898));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_long_lease_is_renewed_as_often_as_it_is_asked_for() {
    let (locks, store) = store();
    let request = locks.lock("k").ttl(millis(60_000)).renew_every(millis(1_000));
    let guard = request.clone().acquire().await.unwrap();
    let began = store.renewals().len();
    tokio::time::sleep(millis(10_000)).await;
    let renewed = store.renewals().len() - began;
    assert!((10..=14).contains(&renewed), "{renewed} renewals in 10 s");
    // The next answer simulates that the key was deleted.
    store.script().renew.push_back(Renewal::NotOwned);
    tokio::time::timeout(millis(1_001), guard.lost()).await.expect("it is told within a second");
    drop(guard);

    // With a long `renew_every`, a renewal is not later than without the option.
    let guard = locks.lock("l").ttl(millis(3_000)).renew_every(millis(60_000)).acquire().await.unwrap();
    let began = store.renewals().len();
    tokio::time::sleep(millis(3_000)).await;
    assert!(store.renewals().len() >= began + 2 && guard.is_held());

    for (request, says) in [
        (request.clone().renew(false), "renew_every is 1s, but the lease is not renewed"),
        (request.renew_every(millis(9)), "renew_every is 9ms: choose 10ms or longer"),
    ] {
        let error = request.acquire().await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// A store that counts in whole seconds, or that has one timeout for all grants, grants less than requested.
#[tokio::test(start_paused = true)]
async fn a_lock_is_held_for_the_lease_that_a_renewal_gave_and_not_for_the_one_it_asked_for() {
    let (locks, store) = store();
    let guard = locks.lock("k").ttl(millis(3_000)).acquire().await.unwrap();
    let short = |sent| Renewal::Renewed { sent, lease: millis(600), waiters: None };
    store.script().renew.push_back(short(Clock::Tokio.now().plus(millis(3_000))));
    guard.extend(millis(5_000)).await.unwrap();
    assert_eq!(guard.remaining(), millis(3_598), "as long as the store said");

    // The renewer uses the lease in the answer: it renews after a third of that lease, and reports the loss at its end.
    drop(guard);
    let guard = locks.lock("l").ttl(millis(3_000)).acquire().await.unwrap();
    let asked = || store.renewals().len();
    let before = asked();
    tokio::time::sleep(millis(1_001)).await;
    assert_eq!(asked(), before + 1);
    tokio::time::sleep(millis(1_001)).await;
    assert_eq!(asked(), before + 2, "a whole lease was given");
    store.script().renew.push_back(short(Clock::Tokio.now().plus(millis(1_000))));
    tokio::time::sleep(millis(1_001)).await;
    assert_eq!(asked(), before + 3);
    tokio::time::sleep(millis(201)).await;
    assert_eq!(asked(), before + 4, "a third of 600 ms");
    drop(guard);
}

/// The renewals are sent in the background, and the new lease ends later than the previous one. The requested ttl does
/// not count.
#[tokio::test(start_paused = true)]
async fn a_lock_is_lost_at_the_end_of_the_lease_that_the_last_renewal_gave() {
    let (locks, store) = store();
    let guard = locks.lock("k").ttl(millis(3_000)).acquire().await.unwrap();
    let start = Instant::now();
    let sent = Clock::Tokio.now().plus(millis(1_000));
    store.script().renew.push_back(Renewal::Renewed { sent, lease: millis(2_500), waiters: None });
    store.script().renew.extend((0..100).map(|_| Renewal::Unknown(no_answer())));
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert_eq!(start.elapsed(), millis(3_498), "1 s and the lease of 2.5 s, less the drift");
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_answer_took_as_long_as_the_lease_is_no_grant() {
    let (locks, store) = store();
    let sent = Clock::Tokio.now();
    tokio::time::advance(millis(998)).await;
    let grant = Grant::new(sent, millis(1_000));
    store.script().acquire.push_back(Ok(Attempt::Granted(grant)));
    let request = locks.lock("k").ttl(millis(1_000));
    let error = request.clone().try_acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("ttl"), "{error}");
    assert_eq!(locks.held(), 0);
    tokio::time::sleep(millis(10)).await;
    let owner = store.tries()[0].clone();
    assert_eq!(store.releases()[0].0, owner, "it is given back");

    // A waiting strategy tries again with another owner.
    store.script().acquire.push_back(Ok(Attempt::Granted(grant)));
    let guard = request.acquire().await.unwrap();
    let tries = store.tries();
    assert!(guard.is_held() && tries.len() == 3 && tries[1] != tries[2]);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn renewals_come_a_third_of_the_lease_apart_and_each_once() {
    let (locks, store) = store();
    let guard = locks.lock("k").ttl(millis(3_000)).acquire().await.unwrap();
    tokio::time::sleep(millis(60_000)).await;
    let times: Vec<_> = store.renewals().iter().map(|(at, ..)| *at).collect();
    for pair in times.windows(2) {
        let gap = pair[1] - pair[0];
        assert!(gap >= millis(499) && gap <= millis(1_001), "{gap:?}");
    }
    assert!(times.len() >= 59);
    drop(guard);
    tokio::time::sleep(millis(60_000)).await;
    assert_eq!(store.renewals().len(), times.len(), "none after the release");
}

#[tokio::test(start_paused = true)]
async fn locks_of_about_the_same_age_are_renewed_together() {
    let (locks, store) = store();
    let mut guards = Vec::new();
    for i in 0..50 {
        guards.push(locks.lock(format!("k{i}")).ttl(millis(3_000)).acquire().await.unwrap());
    }
    tokio::time::sleep(millis(30_000)).await;
    let calls = store.renewals().len();
    assert!(calls <= 30 * 12, "{calls} calls, 50 locks apart would cost 1500 and more");
    drop(guards);
}

#[tokio::test(start_paused = true)]
async fn more_locks_than_one_call_takes_are_all_kept() {
    let (locks, store) = store();
    let mut guards = Vec::new();
    for i in 0..2_500 {
        guards.push(locks.lock(format!("k{i}")).ttl(millis(300)).acquire().await.unwrap());
    }
    tokio::time::sleep(millis(1_500)).await;
    assert!(guards.iter().all(lock_core::LockGuard::is_held));
    assert!(store.renewals().iter().all(|(_, locks, _)| *locks <= 2_000));
    drop(guards);
}

#[tokio::test(start_paused = true)]
async fn without_renewal_nothing_is_renewed() {
    let (locks, store) = store();
    let guard = locks.lock("k").ttl(millis(1_000)).renew(false).acquire().await.unwrap();
    guard.lost().await;
    tokio::time::sleep(millis(10_000)).await;
    assert_eq!(store.renewals().len(), 0);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_not_answered_endangers_until_the_next_that_is() {
    let (locks, store) = store();
    let guard = locks.lock("k").ttl(millis(3_000)).acquire().await.unwrap();
    assert!(!guard.is_endangered());
    store.script().renew.extend((0..3).map(|_| Renewal::Unknown(no_answer())));
    while store.renewals().len() < 3 {
        tokio::time::sleep(millis(5)).await;
    }
    assert!(guard.is_endangered() && guard.is_held() && guard.handle().is_endangered());
    guard.check().expect("endangered is not lost");
    tokio::time::sleep(millis(600)).await;
    assert!(guard.is_held() && !guard.is_endangered());
    assert!(guard.remaining() > millis(2_000));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_answered_with_no_is_a_loss_at_once_and_the_last_renewal() {
    let (locks, store) = store();
    let guard = locks.lock("k").ttl(millis(3_000)).acquire().await.unwrap();
    store.script().renew.push_back(Renewal::NotOwned);
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Taken);
    assert!(start.elapsed() <= millis(1_001));
    assert!(!guard.is_held() && !guard.is_endangered());
    tokio::time::sleep(millis(10_000)).await;
    assert_eq!(store.renewals().len(), 1);
    assert_eq!(guard.lost().await, LossReason::Taken, "the first reason stays");
    assert_eq!(guard.release().await.unwrap_err().loss_reason(), Some(LossReason::Taken));
}

#[cfg(feature = "testkit")]
#[tokio::test(start_paused = true)]
async fn max_hold_is_kept_while_a_renewal_hangs_and_before_the_first() {
    use lock_core::testkit::{Fault, Flaky, Operation};
    let (flaky, control) = Flaky::new(lock_core::backend::memory::Memory::new());
    let locks = lock_core::LockManager::builder(flaky).build().unwrap();
    control.fail_always(Operation::Renew, Fault::Hang);
    for max in [200, 1_500] {
        let start = Instant::now();
        let guard = locks.lock("k").ttl(millis(3_000)).max_hold(millis(max)).acquire().await.unwrap();
        assert_eq!(guard.remaining(), millis(max));
        assert_eq!(guard.lost().await, LossReason::MaxHold);
        assert_eq!(start.elapsed(), millis(max));
        guard.release().await.unwrap_err();
    }
}

#[cfg(feature = "testkit")]
#[tokio::test(start_paused = true)]
async fn one_renewal_of_a_lock_is_under_way_at_a_time() {
    use lock_core::testkit::{Fault, Flaky, Operation};
    let (flaky, control) = Flaky::new(lock_core::backend::memory::Memory::new());
    let locks = lock_core::LockManager::builder(flaky).build().unwrap();
    control.fail_next(Operation::Renew, Fault::Hang, 1);
    let guard = locks.lock("k").ttl(millis(3_000)).acquire().await.unwrap();
    tokio::time::sleep(millis(1_100)).await;
    assert_eq!(control.hanging(Operation::Renew), 1);
    guard.extend(millis(300)).await.unwrap();
    tokio::time::sleep(millis(500)).await;
    assert_eq!(control.calls(Operation::Renew), 2, "the one that hangs, and the extension");
    control.heal();
    tokio::time::sleep(millis(10_000)).await;
    assert!(guard.is_held());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn renewals_ask_for_the_extended_lease_a_third_of_it_later() {
    let (locks, store) = store();
    let guard = locks.lock("k").ttl(millis(300)).acquire().await.unwrap();
    let start = Instant::now();
    guard.extend(millis(60_000)).await.unwrap();
    tokio::time::sleep(millis(61_000)).await;
    let renewals = store.renewals();
    assert!(renewals.iter().all(|(.., ttl)| *ttl == millis(60_000)), "{renewals:?}");
    assert!(renewals[1].0 - start >= millis(10_000), "{renewals:?}");
    assert!((3..=6).contains(&renewals.len()), "{renewals:?}");
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

#[tokio::test(start_paused = true)]
async fn each_answer_to_an_extension_is_told() {
    let (locks, store) = store();
    let guard = locks.lock("k").ttl(millis(3_000)).renew(false).acquire().await.unwrap();
    for ttl in [Duration::ZERO, Duration::from_secs(20 * 366 * 24 * 60 * 60)] {
        let error = guard.extend(ttl).await.unwrap_err();
        assert_eq!(error.kind(), lock_core::LockErrorKind::InvalidRequest);
    }
    assert_eq!(store.renewals().len(), 0, "refused before the store is asked");
    // If there is no answer, the old lease continues.
    store.script().renew.push_back(Renewal::Unknown(no_answer()));
    assert!(guard.extend(millis(60_000)).await.unwrap_err().is_unavailable());
    assert_eq!(guard.remaining(), millis(2_998));
    guard.check().unwrap();
    // If the answer is *not owned*, the lock is lost.
    store.script().renew.push_back(Renewal::NotOwned);
    let error = guard.extend(millis(60_000)).await.unwrap_err();
    assert_eq!(error.loss_reason(), Some(LossReason::Taken));
    assert!(!guard.is_held());
    // A lost lock is not extended, and no request is sent.
    let asked = store.renewals().len();
    assert!(guard.extend(millis(60_000)).await.unwrap_err().is_lost());
    assert_eq!(store.renewals().len(), asked);
    drop(guard);
}

#[test]
fn a_lock_is_renewed_on_the_runtime_that_took_it() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let locks = lock_core::LockManager::in_memory();
    let idle = runtime();
    // This lock belongs to another runtime, which exists but does not run.
    let _guard = idle.block_on(locks.lock("other").ttl(Duration::from_secs(1_000)).acquire()).unwrap();
    runtime().block_on(async {
        let guard = locks.lock("k").ttl(millis(300)).acquire().await.unwrap();
        tokio::time::sleep(millis(1_000)).await;
        guard.check().unwrap();
        guard.release().await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn a_short_lease_is_renewed_in_time_after_a_long_one() {
    let locks = lock_core::LockManager::in_memory();
    let _long = locks.lock("long").ttl(Duration::from_secs(3_600)).acquire().await.unwrap();
    tokio::time::sleep(millis(10)).await;
    let short = locks.lock("short").ttl(millis(100)).acquire().await.unwrap();
    for _ in 0..50 {
        tokio::time::sleep(millis(20)).await;
        short.check().unwrap();
    }
}

/// A call that renews several leases waits for its slowest answer, but not longer than its shortest lease allows.
#[tokio::test(start_paused = true)]
async fn short_leases_are_not_renewed_in_one_call_with_long_ones() {
    let (locks, store) = store();
    let mut guards = Vec::new();
    for i in 0..100 {
        let ttl = if i % 2 == 0 { millis(300) } else { millis(3_000 + 10 * i) };
        guards.push(locks.lock(format!("k{i}")).ttl(ttl).acquire().await.unwrap());
    }
    tokio::time::sleep(millis(10_000)).await;
    assert!(guards.iter().all(lock_core::LockGuard::is_held));
    for (_, asked) in &store.script().asked {
        if let crate::scripted::Asked::Renew { ttls } = asked {
            let (shortest, longest) = (ttls.iter().min().unwrap(), ttls.iter().max().unwrap());
            assert!(*longest <= *shortest * 4, "{ttls:?}");
        }
    }
    drop(guards);
}

#[test]
fn a_lock_that_is_extended_on_another_runtime_is_renewed_on_its_own() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let (own, other) = (runtime(), runtime());
    let locks = lock_core::LockManager::in_memory();
    let guard = own.block_on(locks.lock("k").ttl(millis(3_000)).acquire()).unwrap();
    other.block_on(guard.extend(millis(3_000))).unwrap();
    own.block_on(async {
        tokio::time::sleep(millis(20_000)).await;
        guard.check().unwrap();
    });
}

/// A manager keeps the schedule of its first runtime in one field, and the schedules of later runtimes in a list. The
/// test covers both.
#[test]
fn a_lock_whose_runtime_is_gone_is_renewed_where_it_is_extended() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let locks = lock_core::LockManager::in_memory();
    for key in ["first", "later"] {
        let (own, other) = (runtime(), runtime());
        let guard = own.block_on(locks.lock(key).ttl(millis(3_000)).acquire()).unwrap();
        drop(own);
        other.block_on(async {
            guard.extend(millis(3_000)).await.unwrap();
            tokio::time::sleep(millis(20_000)).await;
            guard.check().unwrap();
        });
    }
}
