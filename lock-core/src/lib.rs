//! Provides distributed locks with renewal, a loss signal and fencing tokens, with one API for several stores.
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
//! A distributed lock is a *lease*: if the holder does not renew it within its ttl, the store frees the key, so that a
//! crash does not block other holders forever. So no library can guarantee that a lock is held until it is released.
//! The process may be stopped for longer than the ttl. The store may fail over before it has replicated the lock. An
//! operator may delete the key. Each of these events ends the lock while its holder still works. This library
//!
//! - reports the loss as soon as the loss is detected: see [`LockGuard::lost`] and [`LockGuard::check`];
//!   [`LockRequest::run`] drops the body,
//! - provides a [fencing token](LockGuard::fencing_token). The protected resource can compare this number, and refuse a
//!   late write of an earlier holder. *If a double execution costs money, compare the token.*
//!
//! # The parts, in the order of the data flow
//!
//! | module | holds |
//! | --- | --- |
//! | [`key`] | keys, templates, encoding |
//! | [`LockManager`] | the entry point: a store and defaults |
//! | [`LockRequest`] | a key, a kind, and options such as ttl and strategy |
//! | [`strategy`] | what to do when the key is held |
//! | [`backend`] | the stores, and the contract for your own |
//! | [`LockGuard`], [`LockHandle`] | a lock that is held, and the methods for the code under the lock |
//! | [`LockScope`] | the locks of a task, for nested calls |
//! | [`CountDownLatch`] | waits until other tasks or processes have counted down |
//! | [`leader`] | leader election |
//! | [`observe`] | what an operator sees: metrics, spans, events |
//! | [`recipes`] | how to solve common tasks |
//!
//! # Features
//!
//! | feature | adds | default |
//! | --- | --- | --- |
//! | `macros` | the attribute `#[distributed_lock]` | yes |
//! | `redis` | the store `redis://` | no |
//! | `redlock` | a majority of independent Redis servers, `redlock://` | no |
//! | `etcd` | the store `etcd://` | no |
//! | `postgres` | the store `postgres://` | no |
//! | `zookeeper` | ZooKeeper, `zookeeper://` | no |
//! | `zookeeper-sasl` | SASL with DIGEST-MD5 for ZooKeeper, `?auth=sasl` | no |
//! | `tls` | TLS for the enabled stores: `rediss://`, `redlocks://`, `etcds://`, `zookeepers://`, `?sslmode=verify-full` | no |
//! | `metrics` | counters and histograms through the `metrics` facade, see [`observe`] | no |
//! | `config` | profiles from a TOML file and from the environment | no |
//! | `serde` | `serde::Serialize` for the results of [`locks`](LockManager::locks), [`inspect`](LockManager::inspect), [`ping`](LockManager::ping) and [`events`](LockManager::events), with times in whole milliseconds | no |
//! | `testing` | helpers for tests of code that uses locks: [`testing`] | no |
//! | `testkit` | the contract suite for backends | no |
//! | `cli` | the program `lockctl`; not in `full` | no |
//! | `full` | all features except `cli` | no |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(unix))]
compile_error!(
    "lock-core runs on Unix (Linux, macOS, the BSDs) only: it uses Unix sockets and the Unix host name. On Windows, build \
     and run your service under WSL or in a container."
);

// The docs of `option_setters!` link to this crate by its name, in every crate that uses the macro.
#[allow(unused_extern_crates, reason = "only docs use it")]
extern crate self as lock_core;

// The modules are in the order of the data flow. A program and the code of the attribute call these first modules.
mod manager;

#[cfg(feature = "macros")]
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod request;

mod options;
#[allow(dead_code, reason = "the attribute uses the rest, by a link to this folder")]
mod words;

// These modules define the values in a request. They use no I/O and no clock.
pub mod key;
mod kind;
#[cfg_attr(
    not(feature = "macros"),
    allow(unreachable_pub, dead_code, reason = "only the attribute renders labels")
)]
mod label;
pub mod strategy;

// These modules turn a request into a grant. They contain the acquire loop, and the queue and the notifications that
// wake the loop.
mod acquire;

mod local_queue;
mod notifications;
mod pending;
mod rates;

// These modules define a grant in use: the guard that a program holds, and its lease.
mod guard;

mod lease;

// The count-down latch, which has no holder.
mod latch;

// Leader election, on an exclusive lock.
pub mod leader;

// A lock that outlives its process.
mod detached;

// All modules above use the following modules.
mod hub;

mod engine;

mod background;

pub mod observe;
mod runtime;
mod store;
mod sync;

pub mod clock;
mod error;
mod expiry;
pub mod owner;
#[cfg(feature = "serde")]
mod serialize;

// The stores.
pub mod backend;
mod backoff;

pub mod recipes;

// For tests.
#[cfg_attr(not(feature = "testkit"), path = "no_simulation.rs")]
mod simulation;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;
#[cfg(feature = "testkit")]
#[cfg_attr(docsrs, doc(cfg(feature = "testkit")))]
pub mod testkit;

pub use backend::finding::{Finding, Severity};
pub use backend::inspect::{GrantId, HolderInfo, Listed, LockInfo, WaiterInfo};
pub use backend::ping::Ping;
pub use backend::{FencingToken, Released};
pub use detached::DetachedLock;
pub use error::{LockError, LockErrorKind, LossReason, Result};
pub use guard::{FromLockError, FromSkipped, LockGuard, LockHandle, LockScope, Skipped};
pub use kind::Kind;
pub use latch::CountDownLatch;
pub use leader::LeaderElection;
#[doc(hidden)]
pub use manager::{__assert_locked, __assert_locked_of};
pub use manager::{LockManager, ManagerBuilder, ShutdownReport};
pub use observe::{LockEvent, LockEvents};
pub use options::{OnLost, Profile, Release};
pub use request::LockRequest;

#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
pub use lock_macros::distributed_lock;

/// The README, so that its examples compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The docs of the attribute, so that its examples compile and run. The file is a link to a file of lock-macros, which
/// cannot use this crate.
#[cfg(all(doctest, feature = "macros"))]
#[doc = include_str!("attribute.md")]
struct Attribute;
