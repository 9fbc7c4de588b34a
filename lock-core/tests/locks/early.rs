//! Tests the handle that the code under a lock uses to extend the lock or to release it early.

use std::time::Duration;

use lock_core::{Kind, LockErrorKind, LockHandle, LockManager, LossReason, OnLost, Release, Released};
use tokio::time::{sleep, timeout};

use crate::drops::futures_poll;
use crate::scripted::{Scripted, no_answer};
use crate::{is_free, millis, patient};

const KINDS: [Kind; 5] =
    [Kind::Reentrant, Kind::Fair, Kind::Read, Kind::Write, Kind::Semaphore { permits: 1 }];

/// Checks that the handle of a released lock reports the end of the lock.
async fn is_over(lock: &LockHandle) {
    assert!(!lock.is_held() && !lock.is_endangered() && lock.remaining().is_zero());
    assert_eq!(lock.check().unwrap_err().kind(), LockErrorKind::Lost);
    assert_eq!(lock.fencing_token().await.unwrap_err().kind(), LockErrorKind::Lost);
    assert_eq!(lock.extend(millis(1_000)).await.unwrap_err().kind(), LockErrorKind::Lost);
    assert!(timeout(millis(60_000), lock.lost()).await.is_err(), "it is not lost");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_has_released_its_lock_goes_on_and_its_result_counts() {
    for kind in KINDS {
        for on_lost in [OnLost::Cancel, OnLost::Finish] {
            let (locks, store) = Scripted::manager(|_| {});
            let other = locks.clone();
            let running =
                locks.request("k", Some(kind)).on_lost(on_lost).run_with(async |lock: LockHandle| {
                    assert_eq!(lock.release_early().await.unwrap(), Released::Released);
                    is_over(&lock).await;
                    assert_eq!(lock.release_early().await.unwrap(), Released::Released, "again");
                    let guard = other.write("k").try_acquire().await.unwrap().expect("free");
                    sleep(millis(60_000)).await;
                    (guard, "done")
                });
            let (guard, result) = running.await.unwrap();
            assert_eq!(result, "done");
            assert!(guard.is_held() && store.releases().len() == 1, "{kind}: the end released nothing");
            assert_eq!(locks.held(), 1);
            drop(guard);
            assert_eq!(locks.held(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_of_several_keys_are_free() {
    let locks = LockManager::in_memory();
    let guard = locks.all(["a", "b"]).acquire().await.unwrap();
    assert_eq!(guard.handle().release_early().await.unwrap(), Released::Released);
    assert!(is_free(&locks, "a").await && is_free(&locks, "b").await);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

/// A waiter of the same process gets the same grant with the same owner. A second release by the guard would free the
/// waiter's key.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_guard_does_not_release_the_grant_that_was_handed_off() {
    for release in [Release::Await, Release::Background] {
        for ends in ["body", "drop"] {
            let locks = LockManager::in_memory();
            let (told, wait) = tokio::sync::oneshot::channel();
            let body = locks.lock("k").release(release).run_with(async |lock: LockHandle| {
                wait.await.unwrap();
                lock.release_early().await.unwrap();
                if ends == "drop" {
                    std::future::pending::<()>().await;
                }
            });
            let mut body = Box::pin(body);
            assert!(!futures_poll(&mut body).await);
            let waiting = tokio::spawn(patient(&locks, "k", millis(60_000)).acquire());
            sleep(millis(1)).await;
            told.send(()).unwrap();
            if ends == "body" {
                body.await.unwrap();
            } else {
                assert!(!futures_poll(&mut body).await);
                drop(body);
            }
            let next = waiting.await.unwrap().unwrap();
            sleep(millis(10)).await;
            assert!(next.is_held() && !is_free(&locks, "k").await, "{release:?} {ends}");
            assert_eq!(locks.held(), 1);
            drop(next);
            assert!(is_free(&locks, "k").await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_nested_calls_share_is_not_released_from_under_them() {
    let locks = LockManager::in_memory();
    let nested = locks.clone();
    let outer = locks.lock("k").run_with(async |outer: LockHandle| {
        nested
            .lock("k")
            .run_with(async |inner: LockHandle| {
                assert_eq!(inner.release_early().await.unwrap(), Released::StillHeld);
                assert_eq!(outer.release_early().await.unwrap(), Released::StillHeld);
                assert!(inner.is_held());
            })
            .await
            .unwrap();
        assert!(outer.is_held());
        assert_eq!(outer.release_early().await.unwrap(), Released::Released);
        // A nested call after the release is an ordinary call and gets its own grant.
        let again = nested.lock("k").acquire().await.unwrap();
        assert!(again.is_held() && !outer.is_held());
        again
    });
    let again = outer.await.unwrap();
    assert!(again.is_held() && !is_free(&locks, "k").await);
    drop(again);
}

#[tokio::test(start_paused = true)]
async fn no_body_starts_under_a_guard_whose_lock_was_released() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").acquire().await.unwrap();
    guard.handle().release_early().await.unwrap();
    for on_lost in [OnLost::Cancel, OnLost::Finish] {
        let error = guard.run_on_lost(on_lost, async { panic!("unlocked") }).await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::Lost);
    }
    assert!(guard.extend(millis(10)).await.is_err());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    let writer = locks.write("k").acquire().await.unwrap();
    writer.handle().release_early().await.unwrap();
    assert_eq!(writer.downgrade().await.unwrap_err().kind(), LockErrorKind::Lost);
    assert!(is_free(&locks, "k").await);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_cannot_be_released_early_and_stays_lost() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(millis(100)).renew(false).acquire().await.unwrap();
    let lock = guard.handle();
    sleep(millis(200)).await;
    let error = lock.release_early().await.unwrap_err();
    assert_eq!(error.loss_reason(), Some(LossReason::Expired));
    assert_eq!(guard.release().await.unwrap_err().loss_reason(), Some(LossReason::Expired));
    assert_eq!(locks.held(), 0);
}

/// The release is dropped at each of its await points. It continues in the background and happens exactly once.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_dropped_on_its_way_is_finished_in_the_background() {
    for polls in 0..4 {
        let (locks, store) = Scripted::manager(|_| {});
        store.script().release_takes = millis(20);
        let guard = locks.lock("k").acquire().await.unwrap();
        let lock = guard.handle();
        let mut releasing = Box::pin(lock.release_early());
        for _ in 0..polls {
            let _ = futures_poll(&mut releasing).await;
        }
        drop(releasing);
        assert_eq!(lock.is_held(), polls == 0);
        drop(guard);
        sleep(millis(1_000)).await;
        assert!(is_free(&locks, "k").await, "{polls}");
        assert_eq!(locks.held(), 0);
        let owners: Vec<_> = store.releases().into_iter().map(|(owner, _)| owner).collect();
        assert!(owners.iter().all(|owner| *owner == owners[0] || *owner != store.tries()[0]), "{owners:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_without_an_answer_is_an_error_and_repeated() {
    let (locks, store) = Scripted::manager(|_| {});
    store.script().release.push_back(Err(no_answer()));
    let guard = locks.lock("k").acquire().await.unwrap();
    let lock = guard.handle();
    assert_eq!(lock.release_early().await.unwrap_err().kind(), LockErrorKind::Unavailable);
    assert!(!lock.is_held(), "it may be free already");
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    sleep(millis(5_000)).await;
    assert!(store.releases().len() >= 2 && is_free(&locks, "k").await);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_body_that_has_released_its_lock() {
    let locks = LockManager::in_memory();
    let running = tokio::spawn(locks.lock("k").run_with(async |lock: LockHandle| {
        lock.release_early().await.unwrap();
        sleep(millis(60_000)).await;
    }));
    sleep(millis(1)).await;
    let report = locks.shutdown(millis(100)).await;
    assert!(report.revoked.is_empty(), "{:?}", report.revoked);
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_body_extends_its_own_lease() {
    for kind in KINDS {
        let locks = LockManager::in_memory();
        let request = locks.request("k", Some(kind)).ttl(millis(100)).renew(false);
        let running = request.run_with(async |lock: LockHandle| {
            lock.extend(Duration::from_secs(60)).await.unwrap();
            sleep(millis(50_000)).await;
            assert!(lock.is_held() && lock.remaining() > millis(5_000));
            let error = lock.extend(Duration::ZERO).await.unwrap_err();
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        });
        running.await.unwrap();
        let lost = locks.request("k", Some(kind)).ttl(millis(100)).renew(false);
        let lost = lost.run_with(async |_| sleep(millis(50_000)).await).await.unwrap_err();
        assert_eq!(lost.kind(), LockErrorKind::Lost, "{kind}: without that it is over");
    }
}

#[tokio::test(start_paused = true)]
async fn an_extended_lease_is_renewed_at_its_new_length() {
    let (locks, store) = Scripted::manager(|_| {});
    let guard = locks.lock("k").ttl(millis(300)).acquire().await.unwrap();
    guard.handle().extend(Duration::from_secs(30)).await.unwrap();
    sleep(millis(30_000)).await;
    assert!(guard.is_held());
    let renewals = store
        .script()
        .asked
        .iter()
        .filter(|(_, asked)| matches!(asked, crate::scripted::Asked::Renew { .. }))
        .count();
    assert!((2..6).contains(&renewals), "{renewals} renewals of 10 s each");
}

#[tokio::test(start_paused = true)]
async fn a_guard_of_the_handle_holds_the_lock_beyond_the_body() {
    for kind in KINDS {
        for release in [Release::Await, Release::Background] {
            for ends in ["body", "drop"] {
                let (locks, store) = Scripted::manager(|_| {});
                let (tell, told) = tokio::sync::oneshot::channel();
                let request = locks.request("k", Some(kind)).ttl(millis(300)).release(release);
                let mut body = Box::pin(request.run_with(async |lock: LockHandle| {
                    let guard = lock.to_guard().unwrap();
                    assert_eq!(lock.release_early().await.unwrap(), Released::StillHeld);
                    tell.send(guard).unwrap();
                    if ends == "drop" {
                        std::future::pending::<()>().await;
                    }
                }));
                if ends == "body" {
                    body.await.unwrap();
                } else {
                    assert!(!futures_poll(&mut body).await);
                    drop(body);
                }
                let guard = told.await.unwrap();
                sleep(millis(5_000)).await;
                assert!(guard.is_held() && store.releases().is_empty(), "{kind}: renewed, not released");
                assert_eq!(locks.held(), 1);
                guard.run(async { assert!(lock_core::LockScope::current().keys() == ["k"]) }).await.unwrap();
                assert_eq!(guard.release().await.unwrap(), Released::Released);
                assert_eq!((store.releases().len(), locks.held()), (1, 0));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_to_each_guard_that_is_released() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(millis(100)).renew(false).acquire().await.unwrap();
    let other = guard.handle().to_guard().unwrap();
    sleep(millis(200)).await;
    for guard in [guard, other] {
        assert_eq!(guard.release().await.unwrap_err().kind(), LockErrorKind::Lost);
    }
    assert_eq!(locks.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_has_ended_gives_no_further_guard() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").acquire().await.unwrap();
    let released = guard.handle();
    guard.release().await.unwrap();
    let guard = locks.lock("k").ttl(millis(100)).renew(false).acquire().await.unwrap();
    let lost = guard.handle();
    sleep(millis(200)).await;
    for lock in [released, lost] {
        assert_eq!(lock.to_guard().unwrap_err().kind(), LockErrorKind::Lost);
    }
    drop(guard);
    assert_eq!(locks.held(), 0);
}
