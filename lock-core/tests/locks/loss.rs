use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use std::time::Duration;

use lock_core::backend::Placement;
use lock_core::{LockErrorKind, LockManager, LossReason, OnLost};
use tokio::time::Instant;

use crate::scripted::Scripted;
use crate::{is_free, millis, patient};

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_renewed_is_lost_at_its_end() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(millis(500)).renew(false).acquire().await.unwrap();
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Expired);
    let after = start.elapsed();
    assert!(
        after >= millis(497) && after < millis(500),
        "{after:?}: at its end, but before anyone else can have it"
    );
    assert!(!guard.is_held() && guard.remaining().is_zero());
    assert_eq!(guard.check().unwrap_err().loss_reason(), Some(LossReason::Expired));
    assert_eq!(guard.fencing_token().await.unwrap_err().kind(), LockErrorKind::Lost);
    assert_eq!(guard.release().await.unwrap_err().kind(), LockErrorKind::Lost);
    assert_eq!(locks.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_body_is_dropped_when_the_lock_is_lost_and_before_anyone_else_has_it() {
    let locks = LockManager::in_memory();
    let running = Arc::new(AtomicBool::new(false));
    struct Running(Arc<AtomicBool>);
    impl Drop for Running {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }
    let body = {
        let running = running.clone();
        async move {
            running.store(true, Ordering::SeqCst);
            let _running = Running(running);
            std::future::pending::<()>().await;
        }
    };
    let task = tokio::spawn(locks.lock("k").ttl(millis(500)).renew(false).run(body));
    tokio::time::sleep(millis(1)).await;
    assert!(running.load(Ordering::SeqCst));
    let next = patient(&locks, "k", millis(10_000)).acquire().await.unwrap();
    assert!(!running.load(Ordering::SeqCst));
    let error = task.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.loss_reason()), (LockErrorKind::Lost, Some(LossReason::Expired)));
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn finish_lets_the_body_end_and_tells_after_it() {
    let locks = LockManager::in_memory();
    let ended = Arc::new(AtomicBool::new(false));
    let flag = ended.clone();
    let body = async move {
        tokio::time::sleep(millis(2_000)).await;
        flag.store(true, Ordering::SeqCst);
    };
    let request = locks.lock("k").ttl(millis(500)).renew(false).on_lost(OnLost::Finish);
    let error = request.run(body).await.unwrap_err();
    assert!(error.is_lost() && ended.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_lock_that_is_renewed() {
    let locks = LockManager::in_memory();
    let start = Instant::now();
    let request = locks.lock("k").ttl(millis(500)).max_hold(millis(3_000));
    let error = request.run(std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(error.loss_reason(), Some(LossReason::MaxHold));
    assert_eq!(start.elapsed(), millis(3_000));
    assert!(is_free(&locks, "k").await);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_back_too_late_is_not_polled_again() {
    let locks = LockManager::in_memory();
    let mut polls = 0;
    let body = std::future::poll_fn(|cx| {
        polls += 1;
        assert_eq!(polls, 1, "polled after the lease was over");
        cx.waker().wake_by_ref();
        std::task::Poll::<()>::Pending
    });
    let mut run = Box::pin(locks.lock("k").ttl(millis(500)).renew(false).run(body));
    std::future::poll_fn(|cx| {
        let _ = run.as_mut().poll(cx);
        std::task::Poll::Ready(())
    })
    .await;
    // This simulates a pause of the whole process, in which the renewer could not report the loss.
    tokio::time::advance(millis(600)).await;
    assert!(run.await.unwrap_err().is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_normal_release_is_not_a_loss() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").acquire().await.unwrap();
    let handle = guard.handle();
    guard.release().await.unwrap();
    assert!(!handle.is_held());
    assert_eq!(handle.check().unwrap_err().loss_reason(), None);
    assert!(tokio::time::timeout(millis(60_000), handle.lost()).await.is_err());
}

/// The renewer ended with the runtime that acquired the lock. So the lock is not renewed, but its loss is reported.
#[test]
fn a_lock_whose_runtime_is_gone_is_lost_and_tells() {
    let locks = LockManager::in_memory();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let guard = first.block_on(locks.lock("k").ttl(millis(200)).acquire()).unwrap();
    drop(first);
    let told = runtime().block_on(async { tokio::time::timeout(millis(60_000), guard.lost()).await });
    assert_eq!(told.unwrap(), LossReason::Expired);
}

/// Here the store blocks the thread that renews. The log of the application may also block this thread.
#[tokio::test]
async fn a_loss_is_told_at_the_deadline_also_while_the_thread_that_renews_is_kept() {
    let (locks, store) = Scripted::manager(|store| store.placement = Placement::Remote);
    store.script().renew_blocks = Duration::from_secs(20);
    let guard = locks.lock("k").ttl(millis(300)).acquire().await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(15), guard.lost()).await;
    assert_eq!(told.expect("in time"), LossReason::Expired);
}

/// If the store sees the deletion of the key or the end of the session, it reports the loss.
#[tokio::test(start_paused = true)]
async fn a_loss_that_the_store_reports_ends_the_body_at_once() {
    for reason in [LossReason::Taken, LossReason::SessionEnded] {
        let (locks, store) = Scripted::manager(|_| {});
        let kept = locks.lock("kept").acquire().await.unwrap();
        let body = tokio::spawn(locks.lock("k").ttl(millis(60_000)).run(std::future::pending::<()>()));
        let guard = locks.lock("l").ttl(millis(60_000)).acquire().await.unwrap();
        tokio::time::sleep(millis(1)).await;
        let owners: Vec<_> = store.claims()[1..].iter().map(|claim| claim.owner).collect();
        let reported = Instant::now();
        match reason {
            LossReason::SessionEnded => store.listener().session_ended(&owners),
            _ => owners.iter().for_each(|owner| store.listener().lost(*owner, reason)),
        }
        assert!(!guard.is_held() && kept.is_held(), "{reason:?}");
        assert_eq!(guard.lost().await, reason);
        assert_eq!(body.await.unwrap().unwrap_err().loss_reason(), Some(reason));
        assert_eq!(reported.elapsed(), Duration::ZERO);
    }
}

/// The report of the loss arrives before the answer with the grant.
#[tokio::test(start_paused = true)]
async fn a_grant_that_is_lost_before_its_answer_comes_is_no_grant() {
    let (locks, store) = Scripted::manager(|_| {});
    store.script().acquire_takes = millis(50);
    let waiting = tokio::spawn(locks.lock("k").acquire());
    tokio::time::sleep(millis(10)).await;
    let lost = store.claims()[0].owner;
    store.listener().lost(lost, LossReason::SessionEnded);
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(store.tries().len(), 2, "another owner asks anew");
    assert_ne!(store.claims()[1].owner, lost);
    assert!(guard.is_held());
}
