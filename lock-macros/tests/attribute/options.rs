//! What each option does to the lock.

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lock_core::strategy::{FailFast, fail_fast};
use lock_core::{LockError, LockManager, distributed_lock};

use crate::support::{hold, is_held};

static LOCKS: LazyLock<LockManager> = LazyLock::new(LockManager::in_memory);

fn locks() -> LockManager {
    LOCKS.clone()
}

#[distributed_lock(key = "from a function", manager = locks())]
async fn manager_from_a_function() -> Result<bool, LockError> {
    Ok(is_held(&LOCKS, "from a function").await)
}

#[distributed_lock(key = "from a static", manager = LOCKS)]
async fn manager_from_a_static() -> Result<bool, LockError> {
    Ok(is_held(&LOCKS, "from a static").await)
}

#[distributed_lock(key = "from an arc", manager = locks)]
async fn manager_from_an_arc(locks: Arc<LockManager>) -> Result<bool, LockError> {
    Ok(is_held(&locks, "from an arc").await)
}

#[distributed_lock(key = "from an expression", manager = if first { &a } else { &b })]
async fn manager_from_an_expression(
    a: LockManager,
    b: LockManager,
    first: bool,
) -> Result<(bool, bool), LockError> {
    Ok((is_held(&a, "from an expression").await, is_held(&b, "from an expression").await))
}

#[tokio::test]
async fn a_manager_is_whatever_derefs_to_one() {
    assert!(manager_from_a_function().await.unwrap());
    assert!(manager_from_a_static().await.unwrap());
    let (a, b) = (LockManager::in_memory(), LockManager::in_memory());
    assert!(manager_from_an_arc(Arc::new(a.clone())).await.unwrap());
    assert_eq!(manager_from_an_expression(a.clone(), b.clone(), true).await.unwrap(), (true, false));
    assert_eq!(manager_from_an_expression(a, b, false).await.unwrap(), (false, true));
}

/// Counts how often it is rendered.
struct Counted<'a>(&'a AtomicUsize);

impl Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a/{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[distributed_lock(key = "a<<b:<counted>", manager = locks, handle = lock, wait = "10s")]
async fn rendered(locks: &LockManager, counted: Counted<'_>) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[tokio::test(start_paused = true)]
async fn the_key_is_rendered_once_and_its_values_are_encoded() {
    let locks = LockManager::in_memory();
    let held = hold(&locks, "a<b:a%2F0").await;
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(2)).await;
        held.release().await
    });
    let renderings = AtomicUsize::new(0);
    // It waits for two seconds and tries many times in between.
    assert_eq!(rendered(&locks, Counted(&renderings)).await.unwrap(), "a<b:a%2F0");
    assert_eq!(renderings.load(Ordering::Relaxed), 1);
}

static STRATEGIES: AtomicUsize = AtomicUsize::new(0);

fn counted_strategy() -> FailFast {
    STRATEGIES.fetch_add(1, Ordering::Relaxed);
    fail_fast()
}

#[distributed_lock(key = "k", strategy = counted_strategy(), manager = locks)]
async fn own_strategy(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_strategy_that_is_an_expression_is_evaluated_for_each_call() {
    let locks = LockManager::in_memory();
    own_strategy(&locks).await.unwrap();
    let held = hold(&locks, "k").await;
    assert!(own_strategy(&locks).await.unwrap_err().is_contended());
    drop(held);
    assert_eq!(STRATEGIES.load(Ordering::Relaxed), 2);
}

#[distributed_lock(key = "ttl", ttl = "1m 30s", handle = lock, manager = locks)]
async fn remaining(locks: &LockManager) -> Result<Duration, LockError> {
    Ok(lock.remaining())
}

#[tokio::test(start_paused = true)]
async fn the_ttl_is_that_of_the_lease() {
    let remaining = remaining(&LockManager::in_memory()).await.unwrap();
    assert!(remaining > Duration::from_secs(85) && remaining <= Duration::from_secs(90), "{remaining:?}");
}

#[distributed_lock(key = "label", manager = locks)]
async fn r#labelled(locks: &LockManager) -> Result<String, LockError> {
    let request = locks.lock("label").strategy(fail_fast());
    let error = tokio::spawn(request.acquire()).await.expect("the asker ran").expect_err("held");
    Ok(error.to_string())
}

#[tokio::test]
async fn the_owner_record_says_which_function() {
    let told = labelled(&LockManager::in_memory()).await.unwrap();
    assert!(told.contains("options::labelled"), "{told}");
}
