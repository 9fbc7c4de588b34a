//! The contract between the library and a store.
//!
//! A backend answers questions about one *claim*: may this owner have this key, does it still have it, release it. It
//! waits for no holder and follows no strategy: waiting, renewal, re-entrancy and strategies are written once, above
//! it. It retries only to reach the store, within the deadline of a call. The bullets under **Behavior** are the
//! contract; the suite in `lock_core::testkit` (feature `testkit`) checks them on every backend.
//!
#![doc = include_str!("docs.md")]

mod answer;
mod capability;
mod claim;
mod conflict;
mod contract;
mod erased;
mod inspect;
mod latch;
pub mod memory;
mod more_keys;
#[cfg(feature = "redis")]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub mod redis;
#[cfg(feature = "redlock")]
#[cfg_attr(docsrs, doc(cfg(feature = "redlock")))]
pub mod redlock;

// Shared parts of all stores on a network: the feature of each such store is named here.
#[cfg(feature = "redis")]
mod remote;
mod waiting;

pub use answer::{Attempt, FencingToken, Grant, Heartbeat, Held, Released, Renew, Renewal};
pub use capability::{Capability, Fencing, LeaseScope, Placement};
pub use claim::{Ask, Claim, Mode, Queue};
pub use contract::{Backend, Listener};
pub use erased::{BoxFuture, DynBackend};
pub use inspect::{GrantId, HOLDERS_TOLD, HolderInfo, Listed, LockInfo, WAITERS_TOLD, WaiterInfo};
pub use latch::{LatchState, LatchStep};
pub use more_keys::MoreKeys;
pub use waiting::{Order, WAITER_LEASE, Waiting};
