//! Provides a check for code that must only run under a lock.

use crate::error::Result;
use crate::guard::LockScope;
use crate::key::{IntoKey, Key};
use crate::manager::LockManager;

/// Asserts in debug builds that the calling task holds a lock. Use it in functions that must be called under a lock.
///
/// The key is a format string with arguments, as for `format!`, or any value that implements [`IntoKey`]. The attribute
/// and the HTTP layer encode the values that they put into a key, but `format!` does not. Encoding does not change a
/// number. If a text may have characters other than `A-Z a-z 0-9 . _ ~ -`, make the key with
/// [`KeyBuilder`](crate::key::KeyBuilder), as below.
///
/// Write the key without its namespace. Without a manager, the namespace of
/// [`LockManager::current`](crate::LockManager::current) is added to the key. If there is no current manager, the
/// namespace of each lock's own manager is added. With a manager, as in `assert_locked!(manager, "order:{id}")`, only
/// the locks of that manager count.
///
/// A task holds the locks that it entered by [`run`](crate::LockRequest::run), the attribute or the HTTP layer; see
/// [`LockScope`]. A guard from [`acquire`](crate::LockRequest::acquire) belongs to no task, and a spawned task has none
/// of its parent's locks. [`LockScope::holds`](crate::LockScope::holds) makes the same check in every build, but
/// returns the result instead of panicking.
///
/// # Panics
/// If debug assertions are on and the task does not hold the key. The text lists the keys that the task holds. If the
/// task has lost the key, the text gives the reason instead.
///
/// # Examples
/// ```
/// use lock_core::key::KeyBuilder;
/// use lock_core::{LockError, LockManager, assert_locked, distributed_lock};
///
/// #[distributed_lock(keys = ["stock:<sku>", "customer:<name>"])]
/// async fn order(sku: u32, name: &str) -> Result<(), LockError> {
///     take_from_stock(sku);
///     bill(name);
///     Ok(())
/// }
///
/// fn take_from_stock(sku: u32) {
///     assert_locked!("stock:{sku}");
/// }
///
/// fn bill(name: &str) {
///     assert_locked!(KeyBuilder::new().literal("customer:").value(&name).finish());
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// LockManager::in_memory().scope(order(7, "A. Turing")).await.unwrap();
/// # }
/// ```
#[macro_export]
macro_rules! assert_locked {
    ($key:literal $(, $($argument:tt)*)?) => {
        if ::core::cfg!(debug_assertions) {
            $crate::__assert_locked(::std::format!($key $(, $($argument)*)?));
        }
    };
    ($manager:expr, $key:literal $(, $($argument:tt)*)?) => {
        if ::core::cfg!(debug_assertions) {
            $crate::__assert_locked_of(&$manager, ::std::format!($key $(, $($argument)*)?));
        }
    };
    ($manager:expr, $key:expr $(,)?) => {
        if ::core::cfg!(debug_assertions) {
            $crate::__assert_locked_of(&$manager, $key);
        }
    };
    ($key:expr $(,)?) => {
        if ::core::cfg!(debug_assertions) {
            $crate::__assert_locked($key);
        }
    };
}

/// Checks a key for [`assert_locked!`](crate::assert_locked) without a manager.
#[doc(hidden)]
#[track_caller]
pub fn __assert_locked(key: impl IntoKey) {
    assert(None, key.into_key());
}

/// Checks a key for [`assert_locked!`](crate::assert_locked) with a manager.
#[doc(hidden)]
#[track_caller]
pub fn __assert_locked_of(manager: &LockManager, key: impl IntoKey) {
    assert(Some(manager), key.into_key());
}

#[track_caller]
fn assert(manager: Option<&LockManager>, key: Result<Key>) {
    if let Err(text) = check(manager, key, &LockScope::current()) {
        panic!("{text}");
    }
}

fn check(manager: Option<&LockManager>, key: Result<Key>, scope: &LockScope) -> Result<(), String> {
    let key = key.map_err(|error| error.to_string())?;
    let (is_held, of_whom) = match manager {
        Some(manager) => (scope.holds_of(manager, &key), " of this manager"),
        None => (scope.holds(&key), ""),
    };
    if is_held {
        return Ok(());
    }
    let lost = scope.why_not(manager, &key);
    let current = if manager.is_none() { LockManager::current().ok() } else { None };
    let key = match manager.or(current.as_ref()) {
        Some(manager) => key.in_namespace(&manager.engine().namespace),
        None => key,
    };
    if let Some(error) = lost {
        let why = error.detail();
        return Err(format!("the lock `{key}`{of_whom} was held by this task, and is not any more: {why}"));
    }
    let held = match scope.keys() {
        held if held.is_empty() => "none".to_owned(),
        held => format!("`{}`", held.join("`, `")),
    };
    Err(format!("the lock `{key}`{of_whom} is not held by this task, which holds {held}"))
}
