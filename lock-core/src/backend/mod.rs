//! The stores, and the contract between the library and a store.
//!
//! A *backend* serves requests about one *claim*: acquire a key for an owner, renew the grant, release it. A backend
//! does not wait for a holder. The layers above the backends implement waiting, renewal, re-entrancy and strategies for
//! all backends. A backend retries only to reach the store, and only within the deadline of a call. The bullets under
//! **Behavior** are the contract. The suite in `lock_core::testkit` (feature `testkit`) checks the contract on every
//! backend.
//!
#![doc = include_str!("docs.md")]

mod answer;
mod capability;
mod claim;
mod conflict;
mod contract;
mod erased;
#[cfg(feature = "etcd")]
#[cfg_attr(docsrs, doc(cfg(feature = "etcd")))]
pub mod etcd;
pub(crate) mod finding;
pub(crate) mod inspect;
mod latch;
mod lease_check;
mod listeners;
pub mod memory;
mod message;
mod more_keys;
mod node_answer;
pub(crate) mod ping;
#[cfg(feature = "postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
pub mod postgres;
#[cfg(feature = "redis")]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub mod redis;
#[cfg(feature = "redlock")]
#[cfg_attr(docsrs, doc(cfg(feature = "redlock")))]
pub mod redlock;

// Parts shared by all stores on a network. The feature of each such store enables `_remote`.
#[cfg(feature = "_remote")]
#[cfg_attr(
    not(feature = "redis"),
    allow(dead_code, unused_imports, reason = "not every store uses all of it")
)]
mod remote;
mod token;
mod waiting;
#[cfg(feature = "zookeeper")]
#[cfg_attr(docsrs, doc(cfg(feature = "zookeeper")))]
pub mod zookeeper;

pub use answer::{Attempt, Grant, Heartbeat, Held, Released, Renew, Renewal};
pub use capability::{Capability, Fencing, LeaseScope, Placement};
pub use claim::{Ask, Claim, Mode, Queue};
pub use contract::{Backend, Listener};
pub use erased::{BoxFuture, DynBackend};
pub(crate) use finding::{Finding, Severity};
pub(crate) use inspect::{GrantId, HolderInfo, Listed, LockInfo, WaiterInfo};
pub use inspect::{HOLDERS_TOLD, WAITERS_TOLD};
pub use latch::{LatchState, LatchStep};
pub use lease_check::LeaseCheck;
pub use more_keys::MoreKeys;
pub use node_answer::NodeAnswer;
pub(crate) use ping::Ping;
pub use token::FencingToken;
pub use waiting::{WAITER_LEASE, Waiting};
