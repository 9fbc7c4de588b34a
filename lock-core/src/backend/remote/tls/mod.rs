//! TLS to a server: the files of the URL, and the handshake.
//!
//! Without the feature `tls`, `none.rs` replaces `connector.rs` and refuses every URL with TLS.

#[cfg_attr(not(feature = "tls"), path = "none.rs")]
mod connector;
mod files;
#[cfg(all(feature = "tls", feature = "zookeeper"))]
mod pem;

pub(crate) use connector::Tls;
pub(crate) use files::TlsFiles;
#[cfg(all(feature = "tls", feature = "zookeeper"))]
pub(crate) use pem::{Pem, ring_by_default};
