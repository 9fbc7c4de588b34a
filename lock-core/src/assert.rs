//! A check for code that must only run under a lock.

use crate::error::LockError;
use crate::key::{IntoKey, Key};
use crate::scope::LockScope;

/// Asserts that the calling task holds a lock, in debug builds: for functions that others must call under one.
///
/// The key is a text with the arguments of `format!`, or anything else that is a key: of values that come from outside,
/// one made by [`KeyBuilder`](crate::key::KeyBuilder), as the attribute makes it. A namespace is not written.
///
/// A task holds what it entered by [`run`](crate::LockRequest::run), the attribute or the HTTP layer: see
/// [`LockScope`](crate::LockScope). A guard from [`acquire`](crate::LockRequest::acquire) belongs to no task.
///
/// # Panics
/// With debug assertions, when the task does not hold the key, or has lost it; the text says what it holds.
///
/// # Examples
/// ```
/// use lock_core::{LockError, LockManager, assert_locked, distributed_lock};
///
/// #[distributed_lock(key = "stock:<sku>")]
/// async fn order(sku: u32) -> Result<(), LockError> {
///     take_from_stock(sku);
///     Ok(())
/// }
///
/// fn take_from_stock(sku: u32) {
///     assert_locked!("stock:{sku}");
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// LockManager::in_memory().scope(order(7)).await.unwrap();
/// # }
/// ```
#[macro_export]
macro_rules! assert_locked {
    ($key:literal $(, $argument:expr)* $(,)?) => {
        if ::core::cfg!(debug_assertions) {
            $crate::__assert_locked(::std::format!($key $(, $argument)*));
        }
    };
    ($key:expr $(,)?) => {
        if ::core::cfg!(debug_assertions) {
            $crate::__assert_locked($key);
        }
    };
}

/// What [`assert_locked!`](crate::assert_locked) calls.
#[doc(hidden)]
#[track_caller]
pub fn __assert_locked(key: impl IntoKey) {
    if let Err(text) = check(key.into_key(), &LockScope::current()) {
        panic!("{text}");
    }
}

fn check(key: Result<Key, LockError>, scope: &LockScope) -> Result<(), String> {
    let key = key.map_err(|error| error.to_string())?;
    if scope.holds(&key) {
        return Ok(());
    }
    let held = scope.keys();
    let holds = if held.is_empty() { "none".to_owned() } else { held.join("`, `") };
    Err(format!("the lock `{key}` is not held by this task, which holds `{holds}`"))
}
