//! The plumbing of a store on a network, whatever protocol it speaks.
//!
//! A store decides what it asks and what an answer means. The parts here know neither: they read a URL, keep a
//! connection for each runtime, and share work among callers.
//!
//! Calls of users go over a connection of the caller's runtime, not through the library's thread: two hops between threads
//! would cost more than Redis itself. For the same reason, each runtime that waits has a subscription of its own. Over
//! Postgres, where a connection is a process of the server, one connection listens for all managers of a store.

#[cfg(any(feature = "etcd", feature = "redis"))]
mod answers;
pub(crate) mod deadline;
mod failure;
mod join;
mod listeners;
mod message;
mod per_runtime;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
#[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "etcd uses all of it"))]
pub(crate) mod queue_copy;
pub(crate) mod race;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod renewal;
#[cfg(any(feature = "postgres", feature = "zookeeper"))]
pub(crate) mod session_keeper;
mod single_flight;
pub(crate) mod socket;
mod supervisor;
mod tls;
pub(crate) mod tries;
mod url;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod wait_queue;
mod words;

#[cfg(any(feature = "etcd", feature = "redis"))]
pub(crate) use answers::Answers;
pub(crate) use failure::Failure;
pub(crate) use join::join_all;
pub(crate) use listeners::Listeners;
pub(crate) use message::Message;
pub(crate) use per_runtime::PerRuntime;
pub(crate) use single_flight::SingleFlight;
pub(crate) use supervisor::Connector;
#[cfg(all(feature = "tls", feature = "zookeeper"))]
pub(crate) use tls::{Pem, ring_by_default};
pub(crate) use tls::{Tls, TlsFiles};
pub(crate) use url::UrlForm;
pub(crate) use words::Words;
