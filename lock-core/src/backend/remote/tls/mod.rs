//! TLS to a server: the files of the URL, and the handshake.
//!
//! The feature `_tls` is internal: the TLS feature of each store (`redis-tls`, `postgres-tls`, `zookeeper-tls`) turns it
//! on. Without it `none.rs` takes the place of `connector.rs` and refuses every URL that asks for TLS.

#[cfg_attr(not(feature = "_tls"), path = "none.rs")]
mod connector;
mod files;
#[cfg(feature = "zookeeper-tls")]
mod pem;

pub(crate) use connector::Tls;
pub(crate) use files::TlsFiles;
#[cfg(feature = "zookeeper-tls")]
pub(crate) use pem::{Pem, ring_by_default};
