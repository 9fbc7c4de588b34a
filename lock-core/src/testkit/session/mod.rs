//! A store whose grants live in sessions, as in ZooKeeper, or in etcd with one lease for each process.
//!
//! [`SessionStore`] is the memory store with [`LeaseScope::Session`](crate::backend::LeaseScope::Session). The grants
//! and the queue entries of a manager live as long as its session, and [`SessionControl`] can end that session at once.
//! The store passes the contract suite. So a test can end the session of a lock without a real store.

mod control;
mod sessions;
mod store;

pub use control::SessionControl;
pub use store::SessionStore;
