//! The shared parts of all stores on a network, independent of the protocol.
//!
//! A store defines its requests and the meaning of their answers. The parts here do not depend on either: they parse a
//! URL, keep a connection for each runtime, and share work among callers.
//!
//! A call uses a connection of the caller's runtime, and not of the library's thread, because switching threads twice
//! would cost more than the request to Redis itself. For the same reason, each runtime with waiters has its own
//! subscription. On Postgres, each connection costs a process of the server, so only one connection listens, for all
//! managers of a store.

#[cfg(any(feature = "etcd", feature = "redis"))]
mod answers;
pub(crate) mod deadline;
mod failure;
mod join;
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
pub(crate) use per_runtime::PerRuntime;
pub(crate) use single_flight::SingleFlight;
pub(crate) use supervisor::Connector;
#[cfg(all(feature = "tls", feature = "zookeeper"))]
pub(crate) use tls::{Pem, ring_by_default};
pub(crate) use tls::{Tls, TlsFiles};
pub(crate) use url::{UrlForm, host_port};
pub(crate) use words::Words;

pub(crate) use super::listeners::Listeners;
pub(crate) use super::message::Message;
