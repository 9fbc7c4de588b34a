//! The guard that holds a lock, the body that runs under it, and the scope in which a task knows its locks.
//!
//! | file | holds |
//! | --- | --- |
//! | `guard`, `hold` | [`LockGuard`], and what it holds: one entry of a lease |
//! | `handle` | [`LockHandle`], the lock as the code under it sees it |
//! | `under` | what the code under a lock can do: extend, release early, hold on |
//! | `extend` | a longer lease, for both of them |
//! | `release` | the release by the last guard: to the store, or to the next waiter |
//! | `body` | a body under its lock: dropped when the lock is lost, and always before it is released |
//! | `scope` | the locks of a task, for nested calls |
//! | `downgrade` | from a write lock to a read lock |
//! | `verify` | the check of a lease inside a transaction of the application |
//! | `return_type` | what a locked function returns when it did not run |

pub(crate) mod body;
mod downgrade;
mod extend;
#[allow(clippy::module_inception, reason = "the folder is named after its type")]
mod guard;
mod handle;
mod hold;
mod release;
mod return_type;
mod scope;
mod under;
mod verify;

pub use guard::LockGuard;
pub use handle::LockHandle;
pub(crate) use hold::Hold;
pub use return_type::{FromLockError, FromSkipped, Skipped};
pub use scope::LockScope;
