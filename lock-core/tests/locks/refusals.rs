//! Tests the texts of refusals and losses: which key is held, who holds it, and whether it is held at all.

use lock_core::strategy::fail_fast;
use lock_core::{GrantId, HolderInfo, Listed, LockErrorKind, LockInfo, LockManager, LossReason};

use crate::millis;

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_key_that_is_held() {
    let locks = LockManager::in_memory();
    for held in ["a", "b", "c"] {
        let guard = locks.lock(held).acquire().await.unwrap();
        let request = locks.all(["a", "b", "c"]);
        for error in [
            request.clone().strategy(fail_fast()).acquire().await.unwrap_err(),
            request.wait(millis(20)).acquire().await.unwrap_err(),
        ] {
            assert_eq!(error.key(), Some(held), "{error}");
        }
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_key_is_told_as_kept() {
    let locks = LockManager::in_memory();
    let patient = || locks.lock("report").min_hold(millis(5_000));
    let request = || patient().strategy(fail_fast());
    let held = request().acquire().await.unwrap();
    let by_a_holder = request().acquire().await.unwrap_err();
    assert!(!by_a_holder.is_kept() && by_a_holder.to_string().contains("held by"), "{by_a_holder}");
    tokio::time::advance(millis(2_000)).await;
    held.release().await.unwrap();

    let pid = std::process::id();
    for error in [
        request().acquire().await.unwrap_err(),
        patient().wait(millis(20)).acquire().await.unwrap_err(),
        locks.all(["other", "report"]).strategy(fail_fast()).acquire().await.unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(error.is_contended() && error.is_kept(), "{text}");
        assert_eq!(
            (error.key(), error.holder().map(|holder| holder.identity().pid())),
            (Some("report"), Some(pid))
        );
        assert!(
            error.retry_after().is_some_and(|left| left > millis(2_900) && left <= millis(3_000)),
            "{text}"
        );
        assert!(
            text.contains("it is kept until its `min_hold` is over, ") && text.contains("s more"),
            "{text}"
        );
        assert!(text.contains("its last holder, ") && text.contains(&format!("pid {pid}")), "{text}");
        assert!(text.contains("has ended") && !text.contains("held by"), "{text}");
        assert!(!text.contains("taken in this process"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_not_renewed_says_so() {
    let locks = LockManager::in_memory();
    for (renew, says) in [(false, "it was not renewed (renew = false)"), (true, "it was held for `max_hold`")]
    {
        let guard =
            locks.lock("k").ttl(millis(500)).renew(renew).max_hold(millis(500)).acquire().await.unwrap();
        let reason = guard.lost().await;
        assert!(matches!(reason, LossReason::Expired | LossReason::MaxHold));
        for error in [guard.check().unwrap_err(), guard.release().await.unwrap_err()] {
            assert_eq!((error.kind(), error.loss_reason()), (LockErrorKind::Lost, Some(reason)));
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}

/// The types in a list are exported from the same module as the list.
#[tokio::test(start_paused = true)]
async fn who_holds_what_is_named_by_the_crate() {
    let locks = LockManager::in_memory();
    let _held = locks.lock("k").acquire().await.unwrap();
    let listed: Listed = locks.locks().await.unwrap();
    let info: &LockInfo = &listed.locks[0];
    let holder: &HolderInfo = &info.holders[0];
    let id: GrantId = holder.id.to_string().parse().unwrap();
    assert_eq!(id, holder.id);
}
