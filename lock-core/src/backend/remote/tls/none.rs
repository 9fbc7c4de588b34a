//! The replacement of `connector.rs` in a build without TLS.

use std::convert::Infallible;

use tokio::net::TcpStream;

use super::TlsFiles;
use crate::backend::remote::{Failure, UrlForm};
use crate::error::{LockError, LockErrorKind, Result};

/// A type without values, because this build has no TLS.
#[derive(Clone, Debug)]
pub(crate) struct Tls(Infallible);

impl Tls {
    /// Refuses every URL with TLS.
    pub(crate) fn new<'a>(
        form: &UrlForm,
        _files: &TlsFiles,
        _hosts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        let detail = format!("this build has no TLS for {}", form.store);
        Err(LockError::new(LockErrorKind::Unsupported, detail))
    }

    #[cfg(feature = "etcd")]
    pub(crate) fn with_protocol(self, _protocol: &[u8]) -> Self {
        match self.0 {}
    }

    #[allow(clippy::unused_async, reason = "the twin awaits the handshake")]
    pub(crate) async fn wrap<R>(
        &self,
        _stream: TcpStream,
        _host: &str,
    ) -> std::result::Result<TcpStream, Failure<R>> {
        match self.0 {}
    }
}
