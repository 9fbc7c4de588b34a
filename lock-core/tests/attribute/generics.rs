//! Generics, `where` clauses, `impl Trait`, lifetimes, recursion and futures that are not `Send`.

use std::fmt::{Debug, Display};
use std::rc::Rc;

use lock_core::{LockError, LockManager, distributed_lock};

use crate::support::{assert_send, is_held};

#[distributed_lock(key = "t:<value>:<more>", manager = locks)]
async fn generic<'a, T, const N: usize>(
    locks: &LockManager,
    value: &'a T,
    more: impl Display + Send + Sync,
) -> Result<(&'a T, [u8; N]), LockError>
where
    T: Display + Debug + Sync,
{
    assert!(is_held(locks, &format!("t:{value}:{more}")).await);
    Ok((value, [0; N]))
}

#[distributed_lock(key = "call:<name>", manager = locks)]
async fn calls<'a, F, G>(
    locks: &LockManager,
    name: &str,
    first: F,
    mut second: G,
    third: &mut (dyn FnMut(u64) + Send),
    fourth: impl AsyncFn(u64) -> u64,
    total: &'a mut u64,
) -> Result<&'a mut u64, LockError>
where
    F: FnOnce() -> u64,
    G: FnMut(&str) -> u64,
{
    assert!(is_held(locks, &format!("call:{name}")).await);
    *total += first() + second(name) + second(name);
    third(*total);
    *total += fourth(1).await;
    Ok(total)
}

#[distributed_lock(key = "impl", manager = locks)]
async fn returns_impl(locks: LockManager) -> Result<impl Iterator<Item = u8> + use<>, LockError> {
    assert!(is_held(&locks, "impl").await);
    if locks.held() > 1 {
        return Ok(vec![1].into_iter());
    }
    Ok(vec![1, 2].into_iter())
}

#[distributed_lock(key = "impl", manager = locks)]
async fn returns_nothing_but_impl(locks: LockManager) -> impl Into<Option<u8>> {
    let answer: Result<u8, LockError> = Ok(7);
    drop(locks);
    Wrapped(answer)
}

struct Wrapped(Result<u8, LockError>);

impl From<Wrapped> for Option<u8> {
    fn from(wrapped: Wrapped) -> Self {
        wrapped.0.ok()
    }
}

impl lock_core::FromLockError for Wrapped {
    fn from_lock_error(error: LockError) -> Self {
        Self(Err(error))
    }
}

#[distributed_lock(key = "down:<n>", manager = locks)]
async fn recursive(locks: &LockManager, n: u32) -> Result<u32, LockError> {
    if n == 0 {
        return Ok(0);
    }
    Ok(Box::pin(recursive(locks, n - 1)).await? + n)
}

#[distributed_lock(key = "same", manager = locks)]
async fn re_entered(locks: &LockManager, n: u32) -> Result<u32, LockError> {
    if n == 0 {
        return Ok(0);
    }
    Ok(Box::pin(re_entered(locks, n - 1)).await? + n)
}

#[distributed_lock(key = "rc:<rc>", manager = locks)]
async fn not_send(locks: &LockManager, rc: Rc<u8>) -> Result<Rc<u8>, LockError> {
    tokio::task::yield_now().await;
    Ok(rc)
}

#[distributed_lock(key = "unsafe", manager = locks)]
async unsafe fn needs_care(locks: &LockManager) -> Result<bool, LockError> {
    Ok(is_held(locks, "unsafe").await)
}

#[tokio::test]
async fn signatures_keep_their_meaning() {
    let locks = LockManager::in_memory();
    let (value, zeros) = assert_send(generic::<_, 3>(&locks, &"x", 5_u8)).await.unwrap();
    assert_eq!((*value, zeros), ("x", [0; 3]));
    assert_eq!(assert_send(returns_impl(locks.clone())).await.unwrap().count(), 2);
    assert_eq!(returns_nothing_but_impl(locks.clone()).await.into(), Some(7));
    let (mut seen, mut total, mut count) = (0, 0, 0);
    let counts = |name: &str| {
        count += 1;
        count + name.len() as u64
    };
    let mut look = |n| seen = n;
    let called = calls(&locks, "n", || 10, counts, &mut look, async |n| n + 5, &mut total);
    assert_eq!(*called.await.unwrap(), 21);
    assert_eq!((seen, total, count), (15, 21, 2));
    assert_eq!(recursive(&locks, 3).await.unwrap(), 6);
    assert_eq!(re_entered(&locks, 3).await.unwrap(), 6);
    assert_eq!(*not_send(&locks, Rc::new(3)).await.unwrap(), 3);
    // A call of an `unsafe fn` needs a block that the workspace forbids. The test only checks that the function
    // compiles.
    let _ = needs_care;
}
