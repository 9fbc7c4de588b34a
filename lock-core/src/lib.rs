//! Distributed locks with renewal, a loss signal and fencing tokens: one API over several stores.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::LockManager;
//!
//! let locks = LockManager::in_memory(); // or LockManager::connect("redis://127.0.0.1/").await?
//! let paid = locks.lock("order:42").run(async { "paid" }).await?;
//! assert_eq!(paid, "paid");
//! # Ok(())
//! # }
//! ```
//!
//! # What a lock can promise
//!
//! A distributed lock is a *lease*: the store frees it when its holder has not renewed it for a ttl, so that a crash
//! does not block everybody for ever. It follows that no library can promise that you hold it until you say otherwise.
//! A process that is stopped for longer than the ttl, a store that fails over without having replicated, a key that
//! somebody deletes: each ends the lock under its holder. This library
//!
//! - tells you in time: [`LockGuard::lost`], [`LockGuard::check`], and [`LockRequest::run`] drops the body,
//! - gives you a [fencing token](LockGuard::fencing_token): a number that the resource which you protect can compare, so
//!   that a late write of an old holder is refused. *Where a double execution costs money, compare it.*
//!
//! # The parts, in the order of the data flow
//!
//! | module | holds |
//! | --- | --- |
//! | [`key`] | keys, templates, encoding |
//! | [`LockManager`] | the entry point: a store, its defaults |
//! | [`LockRequest`] | key, kind, ttl, strategy and options |
//! | [`strategy`] | what to do when the key is held |
//! | [`backend`] | the stores, and the contract for a further one |
//! | [`LockGuard`], [`LockHandle`] | what holds, and what looks on |
//! | [`LockScope`] | the locks of a task, for nested calls |
//! | [`CountDownLatch`] | waiting for so many others |
//! | [`observe`] | what an operator sees: metrics, spans, events |
//!
//! # Features
//!
//! | feature | adds | default |
//! | --- | --- | --- |
//! | `macros` | the attribute `#[distributed_lock]` | yes |
//! | `redis` | the store `redis://` | no |
//! | `redis-tls` | TLS for it, `rediss://`, `redlocks://` | no |
//! | `redlock` | a majority of independent Redis servers, `redlock://` | no |
//! | `metrics` | counters and histograms through the `metrics` facade, see [`observe`] | no |
//! | `testing` | help for tests of code that locks: [`testing`] | no |
//! | `testkit` | the contract suite for backends | no |
//! | `full` | all of them | no |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(unix))]
compile_error!(
    "lock-core runs on Unix (Linux, macOS, the BSDs) only: it uses Unix sockets and the Unix host name. On Windows, build \
     and run your service under WSL or in a container."
);

#[cfg(feature = "macros")]
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod acquire;
mod assert;
pub mod backend;
mod builder;
pub mod clock;
mod connect;
mod downgrade;
mod engine;
mod error;
mod gate;
mod guard;
mod hold;
mod in_flight;
mod inspect;
mod install;
pub mod key;
mod kind;
mod latch;
mod manager;
pub mod observe;
mod outcome;
pub mod owner;
mod profile;
mod renewal;
mod request;
mod run;
mod scope;
#[cfg_attr(not(feature = "testkit"), path = "no_simulation.rs")]
mod simulation;
pub mod strategy;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;
#[cfg(feature = "testkit")]
#[cfg_attr(docsrs, doc(cfg(feature = "testkit")))]
pub mod testkit;
mod waits;

#[doc(hidden)]
pub use assert::{__assert_locked, __assert_locked_of};
pub use backend::{FencingToken, Released};
pub use builder::ManagerBuilder;
pub use error::{LockError, LockErrorKind, LossReason, Result};
pub use guard::{LockGuard, LockHandle};
pub use kind::Kind;
pub use latch::CountDownLatch;
pub use manager::{LockManager, ShutdownReport};
pub use observe::{LockEvent, LockEvents};
pub use outcome::{FromLockError, FromSkipped, Skipped};
pub use profile::Profile;
pub use request::LockRequest;
pub use run::OnLost;
pub use scope::LockScope;

#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
pub use lock_macros::distributed_lock;
