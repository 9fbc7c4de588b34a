use lock_core::{LockErrorKind, LockManager, LockScope, Released, strategy};

use crate::{is_free, millis};

fn at_once(locks: &LockManager, key: &str) -> lock_core::LockRequest {
    locks.lock(key).strategy(strategy::fail_fast())
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_enters_the_same_grant() {
    let locks = LockManager::in_memory();
    let outer = at_once(&locks, "k").run_with(|outer| {
        let locks = locks.clone();
        async move {
            let token = outer.fencing_token().await.unwrap();
            let inner =
                at_once(&locks, "k").run_with(|inner| async move { inner.fencing_token().await.unwrap() });
            assert_eq!(inner.await.unwrap(), token);
            // The end of the inner guard did not release the key.
            assert!(outer.is_held());
            let guard = at_once(&locks, "k").acquire().await.unwrap();
            assert_eq!(guard.release().await.unwrap(), Released::StillHeld);
            assert_eq!(locks.held(), 1);
        }
    });
    outer.await.unwrap();
    assert!(is_free(&locks, "k").await);
}

#[tokio::test(start_paused = true)]
async fn three_levels_and_another_key_between() {
    let locks = LockManager::in_memory();
    let (a, b, c) = (locks.clone(), locks.clone(), locks.clone());
    at_once(&locks, "k")
        .run(async move {
            at_once(&a, "other").run(async move { at_once(&b, "k").run(async { 7 }).await }).await
        })
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(is_free(&c, "k").await && is_free(&c, "other").await);
}

/// The text of the error must be true for every holder. Usually the holder is another task of this process.
#[tokio::test(start_paused = true)]
async fn an_error_within_a_process_does_not_take_the_holder_for_the_caller() {
    let locks = LockManager::in_memory();
    let at_work = tokio::spawn(at_once(&locks, "k").run(std::future::pending::<()>()));
    tokio::time::sleep(millis(1)).await;
    let own = at_once(&locks, "own").acquire().await.unwrap();
    for key in ["k", "own"] {
        let text = at_once(&locks, key).acquire().await.unwrap_err().to_string();
        assert!(text.contains("taken in this process, by another task as a rule"), "{text}");
        assert!(text.contains("only inside `run`"), "{text}");
    }
    at_work.abort();
    drop(own);
}

#[tokio::test(start_paused = true)]
async fn another_task_does_not_enter_unless_it_is_told_to() {
    let locks = LockManager::in_memory();
    let inner = locks.clone();
    at_once(&locks, "k")
        .run(async move {
            let stranger = tokio::spawn(at_once(&inner, "k").run(async {}));
            assert_eq!(stranger.await.unwrap().unwrap_err().kind(), LockErrorKind::Contended);
            let scope = LockScope::current();
            let member = tokio::spawn(scope.enter(at_once(&inner, "k").run(async { 5 })));
            assert_eq!(member.await.unwrap().unwrap(), 5);
        })
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_outlives_the_lock_takes_it_anew() {
    let locks = LockManager::in_memory();
    let scope = at_once(&locks, "k").run(async { LockScope::current() }).await.unwrap();
    let other = at_once(&locks, "k").acquire().await.unwrap();
    let late = scope.clone().enter(at_once(&locks, "k").acquire()).await;
    assert_eq!(late.unwrap_err().kind(), LockErrorKind::Contended);
    drop(other);
    drop(scope.enter(at_once(&locks, "k").acquire()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_inner_guard_that_outlives_the_outer_one_keeps_the_key() {
    let locks = LockManager::in_memory();
    let inner = locks.clone();
    let guard =
        at_once(&locks, "k").run(async move { at_once(&inner, "k").acquire().await.unwrap() }).await.unwrap();
    assert!(guard.is_held());
    assert!(!is_free(&locks, "k").await);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(is_free(&locks, "k").await);
}

#[tokio::test(start_paused = true)]
async fn two_calls_of_one_task_side_by_side_exclude_each_other() {
    let locks = LockManager::in_memory();
    let inside = std::cell::Cell::new(0);
    let one = |locks: &LockManager| {
        let request = locks.lock("k");
        let inside = &inside;
        async move {
            request
                .run(async {
                    inside.set(inside.get() + 1);
                    assert_eq!(inside.get(), 1);
                    tokio::time::sleep(millis(5)).await;
                    inside.set(inside.get() - 1);
                })
                .await
                .unwrap();
        }
    };
    tokio::join!(one(&locks), one(&locks), one(&locks));
}

#[tokio::test(start_paused = true)]
async fn kinds_inside_each_other() {
    let locks = LockManager::in_memory();
    let inner = locks.clone();
    let read_then_write = locks.read("k").run(async move { inner.write("k").acquire().await.map(drop) });
    assert_eq!(read_then_write.await.unwrap().unwrap_err().kind(), LockErrorKind::Upgrade);
    let inner = locks.clone();
    locks.write("k").run(async move { inner.read("k").run(async {}).await }).await.unwrap().unwrap();
    let inner = locks.clone();
    let refused =
        locks.lock("k").run(async move { inner.lock("k").reentrant(false).acquire().await.map(drop) });
    assert_eq!(refused.await.unwrap().unwrap_err().kind(), LockErrorKind::Reentered);
}

#[tokio::test(start_paused = true)]
async fn managers_do_not_share_scopes() {
    let store = lock_core::backend::memory::Memory::new();
    let one = LockManager::builder(store.clone()).build().unwrap();
    let two = LockManager::builder(store).build().unwrap();
    let nested = one.lock("k").run(async move { at_once(&two, "k").acquire().await.map(drop) });
    assert_eq!(nested.await.unwrap().unwrap_err().kind(), LockErrorKind::Contended);
}

#[tokio::test(start_paused = true)]
async fn a_task_spawned_in_the_scope_of_a_manager_has_no_locks_of_its_parent() {
    let locks = LockManager::in_memory();
    let tenant = locks.clone();
    let inner = locks.lock("k").run(async move {
        let scoped =
            tenant.scope(async { at_once(&LockManager::current().unwrap(), "k").acquire().await.map(drop) });
        tokio::spawn(scoped).await.unwrap()
    });
    assert_eq!(inner.await.unwrap().unwrap_err().kind(), LockErrorKind::Contended);
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_of_another_size_is_not_entered() {
    let locks = LockManager::in_memory();
    let inner = locks.clone();
    let nested =
        locks.semaphore("k", 2).run(async move { inner.semaphore("k", 5).acquire().await.map(drop) });
    assert_eq!(nested.await.unwrap().unwrap_err().kind(), LockErrorKind::InvalidRequest);
}
