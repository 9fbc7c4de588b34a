//! A store whose grants live in sessions, like those of ZooKeeper, or of etcd with one lease for each process.
//!
//! [`SessionStore`] is the memory store under [`LeaseScope::Session`](crate::backend::LeaseScope::Session): the grants
//! and the queue entries of one manager live as long as its session, and [`SessionControl`] ends that session at once.
//! It passes the contract suite. Tests use it for the effect of the end of a session on a lock, without a real store
//! with sessions.

mod control;
mod sessions;
mod store;

pub use control::SessionControl;
pub use store::SessionStore;
