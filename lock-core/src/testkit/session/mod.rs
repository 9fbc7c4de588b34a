//! A store whose grants live in sessions, as ZooKeeper's do and those of etcd with one lease for a process.
//!
//! [`SessionStore`] is the memory store under [`LeaseScope::Session`](crate::backend::LeaseScope::Session): the grants and
//! the queue entries of one manager live as long as its session, and [`SessionControl`] ends that session at once. It
//! passes the contract suite, and it tests what a lock does when its session ends before there is any such server.

mod control;
mod sessions;
mod store;

pub use control::SessionControl;
pub use store::SessionStore;
