//! Defines the entry point of the library, its settings, and its methods for operators.
//!
//! | file | holds |
//! | --- | --- |
//! | `manager` | [`LockManager`]: the lock types, events and figures |
//! | `builder` | [`ManagerBuilder`], and the ways to make a manager |
//! | `config` | profiles from a file and from the environment |
//! | `connect` | the URL schemes, and the store of each scheme |
//! | `default` | the default manager of the process |
//! | `scope` | the manager of a task, and the locks that the task holds |
//! | `inspect` | the locks and their holders, for operators |
//! | `ping`, `doctor` | the check whether the store serves locks; the search for dangers to locks |
//! | `shutdown` | the orderly end of a manager |
//! | `assert` | the check of code that must only run under a lock |

mod assert;
mod builder;
#[cfg(feature = "config")]
mod config;
mod connect;
mod default;
mod doctor;
mod held_long;
mod inspect;
#[allow(clippy::module_inception, reason = "the folder is named after its type")]
mod manager;
mod ping;
mod scope;
mod shutdown;

pub use assert::{__assert_locked, __assert_locked_of};
pub use builder::ManagerBuilder;
pub use manager::LockManager;
pub use shutdown::ShutdownReport;
