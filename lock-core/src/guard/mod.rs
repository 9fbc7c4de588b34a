//! Defines the guard that holds a lock, the body that runs under the guard, and the scope of the locks of a task.
//!
//! | file | holds |
//! | --- | --- |
//! | `guard`, `hold` | [`LockGuard`], and its share of a lease |
//! | `handle` | [`LockHandle`]: a held lock for the code that runs under it |
//! | `under` | methods for the code under a lock: extend, release early, hold longer |
//! | `extend` | the extension of a lease, for guards and handles |
//! | `release` | the release by the last guard: at the store, or by a hand-off |
//! | `body` | a body under its lock; a loss of the lock ends the body |
//! | `scope` | the locks of a task, for nested calls |
//! | `downgrade` | the change from a write lock to a read lock |
//! | `verify` | the check of a lease inside a transaction of the application |
//! | `return_type` | the return value of a locked function that did not run |

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
