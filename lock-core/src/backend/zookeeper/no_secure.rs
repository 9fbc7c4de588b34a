//! The replacement of `secure.rs` in a build without TLS to ZooKeeper.

use tokio::net::TcpStream;
use zookeeper_client::Connector;

use super::error::Failure;
use crate::backend::remote::{TlsFiles, UrlForm};
use crate::error::{LockError, LockErrorKind, Result};

/// A type without values, because this build has no TLS.
#[derive(Clone, Debug)]
pub(super) enum Secure {}

impl Secure {
    /// Refuses every URL with TLS.
    pub(super) fn read(_form: &UrlForm, _files: &TlsFiles, _hosts: &[(String, u16)]) -> Result<Self> {
        let detail = "this build has no TLS for ZooKeeper: add the feature `tls` to lock-core in Cargo.toml";
        Err(LockError::new(LockErrorKind::Unsupported, detail))
    }

    pub(super) fn apply(&self, _connector: Connector) -> Connector {
        match *self {}
    }

    #[allow(clippy::unused_async, reason = "the twin looks at the server")]
    pub(super) async fn look(&self, _stream: TcpStream, _host: &str) -> Option<Failure> {
        match *self {}
    }
}
