//! The option `keys`: the call acquires several keys, all or none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{LockError, LockErrorKind, LockManager, distributed_lock};
use tokio::sync::Barrier;

use crate::support::{assert_send, hold, is_held};

#[distributed_lock(keys = ["account:<from>", "account:<to>"], strategy = "fail_fast", manager = locks)]
async fn transfer(locks: &LockManager, from: u64, to: u64) -> Result<Vec<bool>, LockError> {
    let mut held = Vec::new();
    for account in 1..=3 {
        held.push(is_held(locks, &format!("account:{account}")).await);
    }
    Ok(held)
}

#[tokio::test]
async fn all_keys_are_held_while_the_body_runs_and_none_after_it() {
    let locks = LockManager::in_memory();
    for (from, to, held) in [(1, 2, [true, true, false]), (3, 1, [true, false, true])] {
        assert_eq!(assert_send(transfer(&locks, from, to)).await.unwrap(), held);
        for key in ["account:1", "account:2", "account:3"] {
            assert!(!is_held(&locks, key).await, "{key}");
        }
    }
}

#[tokio::test]
async fn two_templates_that_give_one_key_take_it_once() {
    let locks = LockManager::in_memory();
    assert_eq!(transfer(&locks, 2, 2).await.unwrap(), [false, true, false]);
}

#[tokio::test]
async fn where_one_key_is_held_none_is_taken() {
    let locks = LockManager::in_memory();
    for other in ["account:1", "account:2"] {
        let held = hold(&locks, other).await;
        assert!(transfer(&locks, 1, 2).await.unwrap_err().is_contended(), "{other}");
        for key in ["account:1", "account:2"] {
            assert_eq!(is_held(&locks, key).await, key == other, "{key}");
        }
        held.release().await.unwrap();
    }
    transfer(&locks, 1, 2).await.unwrap();
}

#[distributed_lock(keys = ["fork:<left>", "fork:<right>"], strategy = "wait", manager = locks)]
async fn eat(locks: LockManager, left: u8, right: u8, meals: Arc<AtomicUsize>) -> Result<(), LockError> {
    meals.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn opposite_orders_never_wait_for_each_other() {
    let (locks, meals) = (LockManager::in_memory(), Arc::new(AtomicUsize::new(0)));
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let (left, right) = if n % 2 == 0 { (1, 2) } else { (2, 1) };
            tokio::spawn(eat(locks.clone(), left, right, Arc::clone(&meals)))
        })
        .collect();
    for call in calls {
        let call = tokio::time::timeout(Duration::from_secs(60), call).await;
        call.expect("nobody waits for ever").unwrap().unwrap();
    }
    assert_eq!(meals.load(Ordering::Relaxed), 20);
}

#[distributed_lock(keys = ["a:<id>", "b"], strategy = "skip", manager = locks, handle = lock)]
async fn both_or_skip(
    locks: &LockManager,
    id: u64,
    inside: Option<&Barrier>,
) -> Result<Option<u64>, LockError> {
    lock.check()?;
    if let Some(inside) = inside {
        inside.wait().await;
        inside.wait().await;
    }
    Ok(Some(id))
}

#[tokio::test]
async fn a_skip_means_the_same_for_several_keys() {
    let (locks, inside) = (LockManager::in_memory(), Barrier::new(2));
    let other = async {
        inside.wait().await;
        assert_eq!(both_or_skip(&locks, 2, None).await.unwrap(), None, "`b` is common to both");
        inside.wait().await;
    };
    let both = async { tokio::join!(both_or_skip(&locks, 1, Some(&inside)), other) };
    let (first, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("it ran");
    assert_eq!(first.unwrap(), Some(1));
    assert_eq!(both_or_skip(&locks, 2, None).await.unwrap(), Some(2));
}

#[distributed_lock(keys = ["only:<id>"], strategy = "fail_fast", manager = locks)]
async fn one_of_one(locks: &LockManager, id: u64) -> Result<bool, LockError> {
    nested(locks, id).await?;
    Ok(is_held(locks, "only:7").await)
}

#[distributed_lock(key = "only:<id>", strategy = "fail_fast", manager = locks)]
async fn nested(locks: &LockManager, id: u64) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn one_key_may_be_a_list_of_one() {
    assert!(one_of_one(&LockManager::in_memory(), 7).await.unwrap());
}

#[distributed_lock(keys = ["a:<id>", "<name>"], manager = locks)]
async fn empty_name(locks: &LockManager, id: u64, name: &str) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn one_key_that_cannot_be_rendered_fails_all() {
    let error = empty_name(&LockManager::in_memory(), 1, "").await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidKey);
}

#[distributed_lock(keys = ["x", "y"], manager = locks)]
async fn outer<F: Future>(locks: &LockManager, body: F) -> Result<F::Output, LockError> {
    Ok(body.await)
}

#[distributed_lock(keys = ["y", "x"], manager = locks)]
async fn same(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "y", manager = locks)]
async fn part(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["y", "z"], manager = locks)]
async fn more(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_nested_function_enters_and_one_that_adds_a_key_is_refused() {
    let locks = &LockManager::in_memory();
    outer(locks, same(locks)).await.unwrap().unwrap();
    outer(locks, part(locks)).await.unwrap().unwrap();
    let refused = outer(locks, more(locks)).await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), LockErrorKind::Reentered, "{refused}");
    assert_eq!(locks.held(), 0);
}

#[distributed_lock(keys = ["account:<from>", "account:<to>"], kind = "write", strategy = "fail_fast", manager = locks)]
async fn book(locks: &LockManager, from: u64, to: u64) -> Result<bool, LockError> {
    let reader = locks.read("account:2").strategy(lock_core::strategy::fail_fast()).acquire();
    Ok(tokio::spawn(reader).await.expect("it ran").is_err())
}

#[tokio::test]
async fn several_keys_that_are_written_to_have_no_readers() {
    let locks = LockManager::in_memory();
    assert!(book(&locks, 1, 2).await.unwrap());
    let _reader = locks.read("account:2").acquire().await.unwrap();
    assert!(book(&locks, 1, 2).await.unwrap_err().is_contended());
}
