//! Tests of `assert_locked!`.

use lock_core::key::{Key, KeyBuilder};
use lock_core::testing::TestLocks;
use lock_core::{LockError, LockManager, LockScope, assert_locked, distributed_lock};

#[distributed_lock(key = "stock:<sku>")]
async fn order(sku: &str) -> Result<(), LockError> {
    // The value is encoded in the key, so the check must encode it too.
    assert_locked!(KeyBuilder::new().literal("stock:").value(&sku).finish().unwrap());
    assert_locked!(Key::new("stock:a%2Fb").unwrap());
    Ok(())
}

#[tokio::test]
async fn the_lock_of_the_task_is_found_with_and_without_a_namespace() {
    TestLocks::new().scope(order("a/b")).await.unwrap();
    TestLocks::builder().namespace("shop").build().scope(order("a/b")).await.unwrap();
}

#[tokio::test]
async fn without_a_current_manager_the_one_that_holds_says_the_namespace() {
    let locks = TestLocks::builder().namespace("shop").build();
    let body = async {
        assert_locked!("order:7");
        assert!(!LockScope::current().holds("shop:order:7"));
    };
    locks.lock("order:7").run(body).await.unwrap();
}

/// The name of the next test, and the variable that marks the process in which it runs.
const INSTALLED: &str = "asserting::an_installed_manager_is_the_current_one";
const OWN_PROCESS: &str = "LOCK_TEST_OWN_PROCESS";

/// Runs in another process, because the other tests must not share its manager.
#[tokio::test]
async fn an_installed_manager_is_the_current_one() {
    if std::env::var_os(OWN_PROCESS).is_none() {
        let mut own = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = own.args(["--exact", INSTALLED]).env(OWN_PROCESS, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(ended.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let [one, other] = tenants();
    one.install().unwrap();
    assert!(one.lock("k").run(async { LockScope::current().holds("k") }).await.unwrap());
    assert!(!other.lock("k").run(async { LockScope::current().holds("k") }).await.unwrap());
}

#[cfg(not(debug_assertions))]
#[test]
fn a_release_build_checks_nothing() {
    assert_locked!("nobody has it");
    assert_locked!(LockManager::in_memory(), KeyBuilder::new().finish());
}

#[tokio::test]
async fn text_takes_arguments() {
    let locks = TestLocks::new();
    let id = 7;
    let body = async {
        assert_locked!("order:7");
        assert_locked!("order:{id}");
        assert_locked!("order:{}", id);
        assert_locked!("order:{}", 3 + 4,);
        assert_locked!("order:{number}", number = id);
        assert_locked!(locks, "order:7");
        assert_locked!(locks, "order:{id}");
        assert_locked!(locks.manager(), "order:{}", id,);
        assert_locked!(locks.manager().clone(), Key::new("order:7"));
        assert_locked!(String::from("order:7"));
    };
    locks.lock("order:7").run(body).await.unwrap();
}

#[tokio::test]
#[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
#[should_panic(expected = "the lock `order:8` is not held by this task, which holds `order:7`")]
async fn another_lock_is_none() {
    let locks = TestLocks::new();
    locks.lock("order:7").run(async { assert_locked!("order:8") }).await.unwrap();
}

#[tokio::test]
#[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
#[should_panic(expected = "which holds none")]
async fn a_guard_belongs_to_no_task() {
    let locks = TestLocks::new();
    let _guard = locks.lock("order:7").acquire().await.unwrap();
    assert_locked!("order:7");
}

#[tokio::test]
#[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
#[should_panic(expected = "the lock `order:7` was held by this task, and is not any more: ")]
async fn a_lock_that_is_lost_is_not_held() {
    let locks = TestLocks::new();
    let body = async {
        locks.lose("order:7");
        assert_locked!("order:7");
    };
    let _ = locks.lock("order:7").run(body).await;
}

#[tokio::test]
#[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
#[should_panic(
    expected = "the lock `shop:order:7` of this manager was held by this task, and is not any more: "
)]
async fn a_loss_is_told_of_a_manager_as_well() {
    let locks = TestLocks::builder().namespace("shop").build();
    let body = async {
        locks.lose("order:7");
        assert_locked!(locks, "order:7");
    };
    let _ = locks.lock("order:7").run(body).await;
}

#[tokio::test]
#[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
#[should_panic(expected = "the lock `order:8` is not held by this task, which holds none")]
async fn the_loss_of_another_lock_is_not_told() {
    let locks = TestLocks::new();
    let body = async {
        locks.lose("order:7");
        assert_locked!("order:8");
    };
    let _ = locks.lock("order:7").run(body).await;
}

#[tokio::test]
#[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
#[should_panic(expected = "invalid key")]
async fn a_key_that_is_none_is_not_held() {
    assert_locked!(KeyBuilder::new().finish());
}

#[tokio::test]
#[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
#[should_panic(expected = "the lock `order:7` is not held by this task, which holds none")]
async fn a_task_that_was_spawned_does_not_hold() {
    let locks = TestLocks::new();
    let body = async { tokio::spawn(async { assert_locked!("order:7") }).await };
    let panic = locks.lock("order:7").run(body).await.unwrap().unwrap_err().into_panic();
    std::panic::resume_unwind(panic);
}

#[tokio::test]
async fn a_task_that_enters_the_scope_does() {
    let locks = TestLocks::new();
    let body = async {
        let scope = LockScope::current();
        tokio::spawn(scope.enter(async { assert_locked!("order:7") })).await
    };
    locks.lock("order:7").run(body).await.unwrap().unwrap();
}

#[tokio::test]
async fn every_key_of_several_is_held_and_every_lock_of_several() {
    let locks = TestLocks::new();
    let inner = async {
        for key in ["a", "b", "c"] {
            assert_locked!(key);
        }
        let scope = LockScope::current();
        assert_eq!(scope.keys(), ["c", "a", "b"]);
        assert!(scope.holds("b") && !scope.holds("d") && !scope.holds(""));
    };
    locks.all(["b", "a"]).run(locks.lock("c").run(inner)).await.unwrap().unwrap();
}

/// A key that a task enters twice is listed only once.
#[tokio::test]
async fn a_key_that_was_entered_twice_is_named_once() {
    let locks = TestLocks::new();
    let nested = locks.lock("a").run(async { LockScope::current().keys() });
    let keys = locks.all(["b", "a"]).run(locks.lock("c").run(nested)).await.unwrap().unwrap().unwrap();
    assert_eq!(keys, ["a", "b", "c"], "the grant that was entered last comes first, with both of its keys");
}

#[tokio::test]
#[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
async fn the_assertion_names_it_once_as_well() {
    let locks = TestLocks::new();
    let nested =
        async { tokio::spawn(LockScope::current().enter(async { assert_locked!("order:8") })).await };
    let asserted = locks.lock("order:7").run(locks.lock("order:7").run(nested)).await.unwrap().unwrap();
    let panic = asserted.unwrap_err().into_panic();
    let text = panic.downcast_ref::<String>().unwrap();
    assert_eq!(text, "the lock `order:8` is not held by this task, which holds `order:7`");
}

fn tenants() -> [TestLocks; 2] {
    ["a", "b"].map(|tenant| TestLocks::builder().namespace(tenant).build())
}

#[tokio::test]
async fn the_namespace_is_that_of_the_current_manager() {
    let [one, other] = tenants();
    let inner = async {
        let scope = LockScope::current();
        assert_eq!(scope.keys(), ["a:k"]);
        assert!(!scope.holds("k"), "that would be `b:k`");
        assert!(scope.holds_of(&one, "k") && !scope.holds_of(&other, "k"));
        assert_locked!(one, "k");
    };
    one.lock("k").run(other.scope(inner)).await.unwrap();
}

#[tokio::test]
#[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
#[should_panic(expected = "the lock `b:k` is not held by this task, which holds `a:k`")]
async fn the_lock_of_another_tenant_is_none() {
    let [one, other] = tenants();
    one.lock("k").run(other.scope(async { assert_locked!("k") })).await.unwrap();
}

#[tokio::test]
async fn whichever_manager_holds_will_do_without_one_that_is_named() {
    let (one, other) = (LockManager::in_memory(), LockManager::in_memory());
    one.lock("k").run(other.scope(async { assert_locked!("k") })).await.unwrap();
}

#[tokio::test]
#[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
#[should_panic(expected = "the lock `k` of this manager is not held by this task, which holds `k`")]
async fn a_manager_that_is_named_has_to_be_the_one() {
    let (one, other) = (LockManager::in_memory(), LockManager::in_memory());
    one.lock("k").run(async { assert_locked!(other, "k") }).await.unwrap();
}

#[tokio::test]
async fn a_lock_that_was_lost_and_taken_anew_is_held() {
    let locks = TestLocks::new();
    let body = async {
        locks.lose("k");
        locks.lock("k").run(async { assert_locked!("k") }).await
    };
    let request = locks.lock("k").acquire().await.unwrap();
    request.run_on_lost(lock_core::OnLost::Finish, body).await.unwrap_err();
}
