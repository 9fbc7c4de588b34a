//! `assert_locked!`.

use lock_core::key::{Key, KeyBuilder};
use lock_core::testing::TestLocks;
use lock_core::{LockError, assert_locked, distributed_lock};

#[distributed_lock(key = "stock:<sku>")]
async fn order(sku: &str) -> Result<(), LockError> {
    // The value is encoded in the key, so the check has to do the same.
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
async fn text_takes_arguments() {
    let locks = TestLocks::new();
    let id = 7;
    let body = async {
        assert_locked!("order:7");
        assert_locked!("order:{id}");
        assert_locked!("order:{}", id);
        assert_locked!("order:{}", 3 + 4,);
        assert_locked!(String::from("order:7"));
    };
    locks.lock("order:7").run(body).await.unwrap();
}

#[tokio::test]
#[should_panic(expected = "the lock `order:8` is not held by this task, which holds `order:7`")]
async fn another_lock_is_none() {
    let locks = TestLocks::new();
    locks.lock("order:7").run(async { assert_locked!("order:8") }).await.unwrap();
}

#[tokio::test]
#[should_panic(expected = "which holds `none`")]
async fn a_guard_belongs_to_no_task() {
    let locks = TestLocks::new();
    let _guard = locks.lock("order:7").acquire().await.unwrap();
    assert_locked!("order:7");
}

#[tokio::test]
#[should_panic(expected = "which holds `none`")]
async fn a_lock_that_is_lost_is_not_held() {
    let locks = TestLocks::new();
    let body = async {
        locks.lose("order:7");
        assert_locked!("order:7");
    };
    let _ = locks.lock("order:7").run(body).await;
}
