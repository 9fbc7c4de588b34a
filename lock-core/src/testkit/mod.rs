//! Test tools for authors of backends (feature `testkit`).
//!
//! - [`contract`]: the suite that every backend must pass. The [`Capability`](crate::backend::Capability) of the
//!   backend selects the cases.
//! - [`history`]: records who held each key and when. It finds two holders at once, and fencing tokens in the wrong
//!   order.
//! - [`Flaky`]: a backend that wraps another backend and fails on demand, before or after the store has executed the
//!   call.
//! - [`SessionStore`]: a store whose grants live in sessions, with a handle that ends sessions.
//! - [`node_answer`]: waits until a store reports that one of its servers answers.
//! - [`Claims`]: makes claims of fresh owners without a manager.
//!
//! # Examples
//! ```
//! use lock_core::backend::memory::Memory;
//! use lock_core::testkit::contract::{self, Subject};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let memory = Memory::new();
//! let report = contract::run_all(|| std::future::ready(Subject::new(memory.clone()))).await;
//! assert!(report.ran.len() > 20);
//! # }
//! ```

mod claims;
pub mod contract;
mod flaky;
pub mod history;
#[doc(hidden)]
pub mod names;
mod nodes;
#[cfg(feature = "redlock")]
#[doc(hidden)]
pub mod scripts;
mod session;
#[doc(hidden)]
pub mod simulation {
    //! Hooks for the simulation of this workspace. They are not part of the public interface.

    pub use crate::simulation::{Dialling, Inside, Stream, World, enter};
}

pub use claims::Claims;
pub use flaky::{Fault, Flaky, FlakyControl, Operation};
pub use nodes::node_answer;
pub use session::{SessionControl, SessionStore};
