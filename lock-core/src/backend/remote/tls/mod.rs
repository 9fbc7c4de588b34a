//! TLS to a server: the files of the URL, and the handshake.
//!
//! Without the feature `tls`, `none.rs` takes the place of `connector.rs` and refuses every URL that asks for TLS.

#[cfg_attr(not(feature = "tls"), path = "none.rs")]
mod connector;
mod files;
#[cfg(all(feature = "tls", feature = "zookeeper"))]
mod pem;

pub(crate) use connector::Tls;
pub(crate) use files::TlsFiles;
#[cfg(all(feature = "tls", feature = "zookeeper"))]
pub(crate) use pem::{Pem, ring_by_default};
