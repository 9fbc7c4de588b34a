//! The guard that holds a lock, the body that runs under it, and the scope in which a task knows its locks.
//!
//! | file | holds |
//! | --- | --- |
//! | `guard` | [`LockGuard`] |
//! | `handle` | [`LockHandle`], a view that does not hold the lock |
//! | `release` | the release by the last guard: to the store, or to the next waiter |
//! | `body` | a body under its lock: dropped when the lock is lost, and always before it is released |
//! | `scope` | the locks of a task, for nested calls |
//! | `downgrade` | from a write lock to a read lock |
//! | `return_type` | what a locked function returns when it did not run |

pub(crate) mod body;
mod downgrade;
#[allow(clippy::module_inception, reason = "the folder is named after its type")]
mod guard;
mod handle;
mod release;
mod return_type;
mod scope;

pub use body::OnLost;
pub use guard::LockGuard;
pub use handle::LockHandle;
pub use return_type::{FromLockError, FromSkipped, Skipped};
pub use scope::LockScope;
