use lock_core::{LockErrorKind, LockManager, LossReason, Profile, ShutdownReport, strategy};
use tokio::time::Instant;

use crate::{millis, patient};

#[tokio::test(start_paused = true)]
async fn the_manager_of_the_scope_goes_before_the_installed_one() {
    let error = LockManager::current().unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::NotInstalled);
    assert!(error.to_string().contains("install()"), "{error}");

    let (default, tenant) = (LockManager::in_memory(), LockManager::in_memory());
    default.install().unwrap();
    let second = tenant.install().unwrap_err();
    assert_eq!(second.kind(), LockErrorKind::InvalidRequest);
    let guard = default.lock("k").acquire().await.unwrap();
    assert!(LockManager::current().unwrap().lock("k").try_acquire().await.unwrap().is_none());
    tenant
        .scope(async {
            let here = LockManager::current().unwrap();
            drop(here.lock("k").try_acquire().await.unwrap().expect("another store"));
            // The manager of the scope is also the current manager of a body that runs under one of its locks.
            here.lock("k")
                .run(async { LockManager::current().unwrap().lock("j").acquire().await })
                .await
                .unwrap()
                .unwrap()
        })
        .await
        .release()
        .await
        .unwrap();
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn what_a_request_does_not_say_comes_from_profile_and_manager() {
    let locks = LockManager::builder(lock_core::backend::memory::Memory::new())
        .namespace("shop")
        .ttl(millis(3_000))
        .wait(millis(70))
        .profile("quick", Profile::new().ttl(millis(200)).strategy(strategy::fail_fast()))
        .build()
        .unwrap();
    let guard = locks.lock("k").acquire().await.unwrap();
    assert_eq!((guard.key(), guard.remaining()), ("shop:k", millis(2_998)));
    let start = Instant::now();
    assert!(locks.lock("k").acquire().await.unwrap_err().is_timed_out());
    assert!(start.elapsed() >= millis(70) && start.elapsed() < millis(90));
    let start = Instant::now();
    assert_eq!(
        locks.lock("k").profile("quick").acquire().await.unwrap_err().kind(),
        LockErrorKind::Contended
    );
    assert_eq!(start.elapsed(), millis(0));
    drop(guard);
    assert_eq!(locks.lock("k").profile("quick").acquire().await.unwrap().remaining(), millis(198));
    assert_eq!(
        locks.lock("k").profile("quick").ttl(millis(90)).acquire().await.unwrap().remaining(),
        millis(88)
    );
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_guards_and_turns_others_away() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(patient(&locks, "k", millis(60_000)).acquire());
    tokio::time::sleep(millis(1)).await;
    let ending = {
        let locks = locks.clone();
        tokio::spawn(async move { locks.shutdown(millis(5_000)).await })
    };
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), LockErrorKind::ShuttingDown);
    assert_eq!(locks.lock("j").acquire().await.unwrap_err().kind(), LockErrorKind::ShuttingDown);
    assert!(guard.is_held() && !ending.is_finished());
    drop(guard);
    assert_eq!(ending.await.unwrap(), ShutdownReport::default());
}

#[tokio::test(start_paused = true)]
async fn shutdown_revokes_what_is_left_after_the_grace() {
    let store = lock_core::backend::memory::Memory::new();
    let locks = LockManager::builder(store.clone()).build().unwrap();
    let guard = locks.lock("k").ttl(millis(60_000)).acquire().await.unwrap();
    let start = Instant::now();
    let report = locks.shutdown(millis(500)).await;
    assert_eq!((report.revoked, report.unanswered), (vec!["k".to_owned()], 0));
    assert!(start.elapsed() < millis(600));
    assert_eq!(guard.lost().await, LossReason::ShutDown);
    let next = LockManager::builder(store).build().unwrap();
    assert!(next.lock("k").try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_profile_belongs_to_the_strategy_of_the_profile() {
    let locks = LockManager::builder(lock_core::backend::memory::Memory::new())
        .profile("slow", Profile::new().wait(millis(200)))
        .build()
        .unwrap();
    let guard = locks.lock("k").profile("slow").try_acquire().await.unwrap().expect("nobody has it");
    assert!(locks.lock("k").profile("slow").try_acquire().await.unwrap().is_none());
    let at_once = locks.lock("k").profile("slow").strategy(strategy::fail_fast()).acquire().await;
    assert_eq!(at_once.unwrap_err().kind(), LockErrorKind::Contended);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn what_a_debugger_shows_is_one_short_line() {
    for redact in [false, true] {
        let memory = lock_core::backend::memory::Memory::new();
        let locks = LockManager::builder(memory).namespace("shop").redact_keys(redact).build().unwrap();
        let request = locks.lock("order:7").template("order:<id>").ttl(millis(5_002));
        let key = if redact { "order:<id>" } else { "shop:order:7" };
        let asked = format!("{request:?}");
        assert_eq!(asked, format!("LockRequest {{ key: \"{key}\", kind: Reentrant, ttl: 5.002s }}"));
        let guard = request.acquire().await.unwrap();
        let held = format!("{{ key: \"{key}\", kind: Reentrant, is_held: true, remaining: 5s }}");
        assert_eq!(format!("{guard:?}"), format!("LockGuard {held}"));
        let handle = guard.handle();
        assert_eq!(format!("{handle:?}"), format!("LockHandle {held}"));
        assert_eq!(format!("{locks:?}"), r#"LockManager { store: "memory", namespace: "shop", held: 1 }"#);
        guard.release().await.unwrap();
        assert!(format!("{handle:?}").ends_with("is_held: false, remaining: 0ns }"), "{handle:?}");
    }
    let locks = LockManager::in_memory();
    let several = locks.all(["b", "a"]).strategy(strategy::skip());
    assert_eq!(
        format!("{several:?}"),
        r#"LockRequest { key: "a", more_keys: 1, kind: Reentrant, strategy: "skip" }"#
    );
    let bad = locks.lock("");
    assert_eq!(format!("{bad:?}"), "LockRequest { key: InvalidKey, kind: Reentrant }");
}

#[tokio::test(start_paused = true)]
async fn the_doctor_names_the_lock_that_is_held_for_much_longer_than_others() {
    let locks = LockManager::in_memory();
    let hangs = locks.lock("order:hangs").acquire().await.unwrap();
    tokio::time::sleep(millis(11_000)).await;
    let mut guards = Vec::new();
    for number in 0..19 {
        guards.push(locks.lock(format!("order:{number}")).acquire().await.unwrap());
    }
    let named = async || {
        let findings = locks.doctor().await.unwrap().into_iter();
        let long = findings.filter(|finding| finding.rule == "locks.held_long");
        long.map(|finding| finding.about).collect::<Vec<_>>()
    };
    assert_eq!(named().await, [""; 0], "nobody waits for it");
    let waiting = tokio::spawn(locks.fair("order:hangs").wait(millis(60_000)).acquire());
    tokio::time::sleep(millis(100)).await;
    assert_eq!(named().await, ["order:hangs"]);
    hangs.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
}
